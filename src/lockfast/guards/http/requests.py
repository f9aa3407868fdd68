"""The HTTP guard's client side for requests: `requests.put(url, auth=Fencing(lease))`."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urljoin

import requests
from requests.auth import AuthBase
from requests.sessions import SessionRedirectMixin

from lockfast.guards.http.header import HEADER, header
from lockfast.guards.http.problem import told
from lockfast.guards.mark import Holder

REDIRECTS = SessionRedirectMixin()


class Fencing(AuthBase):
    """Adds the token to requests. If the server rejects it, the request raises `StaleToken`, and
    the lease is LOST.

    Args:
        lease: The lease, or what `parse` of the HTTP guard returned.
        auth: Another authentication to use as well, since this one takes the place of `auth`.
        signed: The signed token, if the server verifies it: see `Lease.signed`.

    Raises:
        TypeError: The lease is a permit of a semaphore.

    Example:
        ::

            with client.lock("invoice:42", ttl=10) as lease:
                requests.put("http://localhost:8000/invoices/42", auth=Fencing(lease))
    """

    def __init__(
        self,
        lease: Holder,
        auth: Callable[[requests.PreparedRequest], requests.PreparedRequest] | None = None,
        *,
        signed: str = "",
    ) -> None:
        """Take the lease. Its header never changes, so it is made here, once."""
        self._lease = lease
        self._header = header(lease, signed)
        self._auth = auth

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Add the header to a request, and register a check of its response."""
        if self._auth is not None:
            request = self._auth(request)
        request.headers[HEADER] = self._header
        request.register_hook("response", self._told)  # type: ignore[no-untyped-call]  # requests'
        return request

    def _told(self, response: requests.Response, **_: object) -> None:
        if response.status_code == requests.codes.precondition_failed:
            kind = response.headers.get("content-type", "")
            told(self._lease, response.status_code, kind, response.content)
        # On a redirect to another host, requests removes only the Authorization header. A host that
        # knows a token and its id could pass for the holder, so remove this header too.
        target, here = REDIRECTS.get_redirect_target(response), response.request.url or ""
        if target is not None:
            there = urljoin(here, target)
            if REDIRECTS.should_strip_auth(here, there):  # type: ignore[no-untyped-call]  # requests'
                response.request.headers.pop(HEADER, None)
