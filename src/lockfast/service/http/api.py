"""The HTTP API: finds what serves a request, and returns its answer."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from msgspec import Struct

from lockfast.claims.ids import Ids
from lockfast.engines.remote.identity import client_of, new_secret
from lockfast.engines.remote.messages import Asked
from lockfast.service.access import Headers, values
from lockfast.service.http import looking
from lockfast.service.http.acquisition import Acquisition
from lockfast.service.http.answer import Answer, failed, overrun, problem
from lockfast.service.http.call import Epochs, Failure, Origin
from lockfast.service.http.caller import Caller
from lockfast.service.http.departures import Departures
from lockfast.service.http.messages import LONGEST_KEY, Acquire, Break, Look, Release, Renew, Sign
from lockfast.service.http.polls import Polls
from lockfast.service.http.release import release
from lockfast.service.http.renewal import renew
from lockfast.service.http.routes import IDEMPOTENCY, ROUTES, Route
from lockfast.service.http.seal import BadHandle, ForeignHandle, Seal
from lockfast.service.http.shapes import BadRequest, described, shape
from lockfast.service.http.signature import sign
from lockfast.service.replica import Replica
from lockfast.service.replies import internal
from lockfast.service.rights import Denied
from lockfast.service.usage import Overrun

MOST_FIELDS = 16  # of a query
_KEY = re.compile(f"[!-~]{{1,{LONGEST_KEY}}}")
Serve = Callable[[Any, Caller], Awaitable[Answer]]


class Api:
    """The HTTP API of a replica."""

    def __init__(self, replica: Replica, keys: Sequence[bytes]) -> None:
        """Serve this replica. `keys`: those of the handles."""
        self._replica = replica
        self.figures = replica.figures
        self.seal = Seal(keys)
        self._ids = Ids(client_of(new_secret()))
        self.polls = Polls(self._ids.client)
        self._departures = Departures(replica)
        self._epochs = Epochs()
        self._serve: dict[str, Serve] = {
            "acquire": self._acquire,
            "renew": self._renew,
            "sign": self._sign,
            "release": self._release,
            "locks": self._locks,
            "break": self._break,
            "guarantees": self._guarantees,
        }
        assert set(self._serve) == {route.name for route in ROUTES}  # noqa: S101  # this table's
        replica.leaving = self.polls.end

    @property
    def leaving(self) -> bool:
        """Whether clients should connect to another replica."""
        return self._replica.draining

    async def answer(self, route: Route, query: bytes, body: bytes, caller: Caller) -> Answer:
        """Return the answer to a request."""
        began = time.perf_counter()
        answer = await self._answer(route, query, body, caller)
        took = time.perf_counter() - began - answer.waited
        self.figures.served.put(max(took, 0.0), (route.path,))
        return answer

    async def _answer(self, route: Route, query: bytes, body: bytes, caller: Caller) -> Answer:
        try:
            request = _parsed(route, query, body)
            return await self._limited(route, request, len(body), caller)
        except Overrun as error:
            self.figures.denied.counts["limit",] += 1
            return overrun(error.message, error.after)
        except (BadRequest, BadHandle) as error:
            return problem(HTTPStatus.BAD_REQUEST, "malformed", str(error))
        except (ForeignHandle, Denied) as error:
            why = error.message if isinstance(error, Denied) else str(error)
            return problem(HTTPStatus.FORBIDDEN, "forbidden", why)
        except Failure as failure:
            return failed(failure.fault)
        except Exception as error:  # noqa: BLE001  # it is logged
            why = internal(error).message
            return problem(HTTPStatus.INTERNAL_SERVER_ERROR, "internal", why)

    async def _limited(
        self, route: Route, request: Struct | None, size: int, caller: Caller
    ) -> Answer:
        """Serve a request. It counts as a connection of its subject meanwhile."""
        self._replica.open()
        usage = caller.who.usage
        if usage is None:
            return await self._serve[route.name](request, caller)
        if usage.crowded(1):
            raise Overrun(f"{usage.name!r} is over its limit of connections (max_connections)", 1.0)
        count = len(request.handles) or 1 if isinstance(request, Renew) else 1
        usage.request(count, size, keeps=isinstance(request, Renew | Release))
        usage.connections += 1
        try:
            return await self._serve[route.name](request, caller)
        finally:
            usage.connections -= 1

    async def _acquire(self, request: Acquire, caller: Caller) -> Answer:
        if self._replica.draining:
            return problem(HTTPStatus.SERVICE_UNAVAILABLE, "draining", "this replica ends soon")
        if request.handle is None:
            asked, keyed = self._new(request, caller), bool(caller.idempotency)
        elif request.name is not None or caller.idempotency:
            raise BadRequest(f"a handle already says which lock: leave name and {IDEMPOTENCY} out")
        else:
            sealed = self.seal.open(request.handle, caller.subject)
            asked, keyed = sealed.asked(), sealed.keyed
        acquisition = Acquisition(
            self._replica,
            asked,
            request.wait,
            caller,
            self._epochs.next(),
            resumed=request.handle is not None,
            keyed=keyed,
        )
        return await acquisition.run(self.polls, self._departures, self.seal)

    def _new(self, request: Acquire, caller: Caller) -> Asked:
        """Return a new claim, or that of the same `Idempotency-Key`."""
        wanted = shape(request)
        payload = described(request, caller.subject, caller.who.address)
        if caller.idempotency:
            about = f"{wanted.kind:d} {wanted.capacity} {wanted.weight} {wanted.name}"
            id_ = self.seal.derived(caller.subject, caller.idempotency, about)
        else:
            id_ = self._ids.new()
        return Asked(
            id_,
            wanted.name,
            wanted.ttl,
            int(wanted.kind),
            wanted.capacity,
            wanted.weight,
            queue=request.wait > 0.0,
            payload=payload,
        )

    async def _renew(self, request: Renew, caller: Caller) -> Answer:
        return await renew(self._origin(caller), request, self.seal)

    async def _sign(self, request: Sign, caller: Caller) -> Answer:
        return await sign(self._origin(caller), request, self.seal)

    async def _release(self, request: Release, caller: Caller) -> Answer:
        return await release(self._origin(caller), request, self.seal)

    async def _locks(self, request: Look, caller: Caller) -> Answer:
        return await looking.locks(self._origin(caller), request)

    async def _break(self, request: Break, caller: Caller) -> Answer:
        return await looking.break_(self._origin(caller), request)

    async def _guarantees(self, _: None, caller: Caller) -> Answer:
        return await looking.guarantees(self._origin(caller))

    def _origin(self, caller: Caller) -> Origin:
        return Origin(self._replica, caller.who, self._epochs.next())


def idempotency_key(headers: Headers) -> str:
    """Return the `Idempotency-Key` of a request, or an empty text. Raise `BadRequest`."""
    found = values(headers, IDEMPOTENCY.lower().encode())
    if not found:
        return ""
    key = found[0].decode("latin-1")
    if len(found) > 1 or not _KEY.fullmatch(key):
        raise BadRequest(f"{IDEMPOTENCY} must be 1 to {LONGEST_KEY} visible characters of ASCII")
    return key


_decoders = {
    route.path: msgspec.json.Decoder(route.body).decode
    for route in ROUTES
    if route.body is not None
}


def _parsed(route: Route, query: bytes, body: bytes) -> Struct | None:
    """Return the request. Raise `BadRequest` if it is none."""
    try:
        if route.body is not None:
            if not body:
                raise BadRequest("the body is empty, and must be a JSON object")
            return _decoders[route.path](body)
        if route.query is None:
            return None
        fields = parse_qsl(
            query.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=MOST_FIELDS,
        )
        if len(dict(fields)) < len(fields):
            raise BadRequest("a field of the query is there twice")
        return msgspec.convert(dict(fields), route.query)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise BadRequest(f"malformed request: {str(error)[:200]}") from None
    except BadRequest:
        raise
    except ValueError as error:  # too many fields
        raise BadRequest(f"malformed query: {str(error)[:200]}") from None
