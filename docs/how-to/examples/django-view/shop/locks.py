from collections.abc import Callable, Iterator
from contextlib import contextmanager

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse

import lockfast

client = lockfast.connect(settings.LOCKFAST_URL)  # one for all threads of the process


class Unavailable(Exception):
    def __init__(self, status: int, detail: str, retry_after: int) -> None:
        super().__init__(detail)
        self.status = status
        self.retry_after = retry_after


@contextmanager
def locked(name: str) -> Iterator[lockfast.Lease]:
    try:
        lease = client.lock(name, ttl=30, timeout=2).acquire()
    except lockfast.NotAcquired as error:
        raise Unavailable(423, f"{name} is locked.", retry_after=2) from error
    except lockfast.EngineError as error:
        raise Unavailable(503, "The lock server is down.", retry_after=5) from error
    with lease:
        yield lease


class LockErrors:
    """Middleware: answers a request that failed because of a lock."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, _: HttpRequest, error: Exception) -> HttpResponse | None:
        match error:
            case Unavailable():
                later = {"Retry-After": str(error.retry_after)}
                return JsonResponse({"detail": str(error)}, status=error.status, headers=later)
            case lockfast.StaleToken():
                return JsonResponse({"detail": "The write was rejected."}, status=409)
            case lockfast.LockfastError():
                return JsonResponse({"detail": "The outcome is unknown."}, status=500)
        return None
