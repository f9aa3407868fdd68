"""What both transports share: endpoints and failover, and the login.

Over gRPC with requests and replies as plain bytes. The driver retries nothing by itself: a claim
that is sent twice must be known to have been.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import grpc

from lockfast.engines.etcd.failures import Leaderless, Leaseless, crowded, failed
from lockfast.engines.etcd.links import Links, Login
from lockfast.engines.etcd.messages import (
    AUTHENTICATE,
    GRANT,
    KEEP,
    MEMBERS,
    RANGE,
    TIME_TO_LIVE,
)
from lockfast.engines.etcd.protobuf import Malformed, part, text
from lockfast.engines.etcd.watch_stream import Stream
from lockfast.errors import EngineUnavailable
from lockfast.runtime.base import Crowded, Runtime, T

IO = 1.0  # seconds after which an unanswered request is given up: another member may answer
LOGIN = 5.0  # seconds for a login: etcd makes checking a password slow, on purpose
ELECTION = 0.05  # seconds between questions whether there is a leader again
HARMLESS = frozenset([RANGE, KEEP, TIME_TO_LIVE, GRANT, MEMBERS])
"""A lease that was granted twice expires once; the others change nothing, or nothing more."""
STALE_LOGIN = ("invalid auth token", "revision of auth store is old")
LEADER = ("hasleader", "true")  # a member that has lost its leader says so at once

Metadata = tuple[tuple[str, str], ...]


def whole(reply: bytes | None) -> bytes:
    """Check that there is a reply: gRPC gives None for a stream that ends well and without one."""
    if reply is None:
        raise Malformed("none")
    return reply


class Transport(ABC):
    """A transport. The abstract methods wait: in a thread, or in asyncio."""

    _links: Links
    """The links of requests."""
    _streams: Links
    """Links whose streams a thread reads."""

    def __init__(self, login: Login, runtime: Runtime) -> None:
        """Nothing is opened yet."""
        self._login = login
        self.now = runtime.now
        self.mutex = runtime.mutex
        self._sleep = runtime.sleep
        self._bell = runtime.bell()
        self._current = 0
        self._metadata: Metadata = (LEADER,)
        self._strange = login.username is not None
        self._greeting = runtime.mutex()

    @property
    def addresses(self) -> tuple[str, ...]:
        """All members that the URL names."""
        return self._login.addresses

    @property
    def known(self) -> bool:
        """Whether it says who it is."""
        return self._login.username is not None or self._login.certified

    @property
    def exposed(self) -> bool:
        """Whether it sends a password that anybody on the way can read."""
        return self._login.username is not None and self._login.tls is None

    @property
    def address(self) -> str:
        """The member that is asked at present."""
        return self._login.addresses[self._current]

    async def in_turn(
        self,
        work: Callable[[], Coroutine[Any, Any, T]],
        deadline: float,  # noqa: ARG002  # that of threads
    ) -> T:
        """Send a claim once not too many others are under way. Tasks need no such limit."""
        return await work()

    async def call(
        self, method: str, request: bytes, deadline: float, *, harmless: bool = False
    ) -> bytes:
        """Return the reply. A request that was not sent goes to the next member, and so on; while
        they elect a leader, again and again. One that is harmless when sent twice is sent again
        also if its outcome is not known.
        """
        harmless = harmless or method in HARMLESS
        tried, electing = 0, False
        while True:
            try:
                if self._strange:
                    await self._greet(deadline)
                return await self._call(method, request, deadline)
            except EngineUnavailable as error:
                tried += 1
                if (error.sent and not harmless) or isinstance(error, Leaseless):
                    raise
                electing = electing or error.sent or isinstance(error, Leaderless)
                if tried > len(self._login.addresses):
                    if not electing or self.now() + ELECTION >= deadline:
                        raise
                    await self._sleep(ELECTION)

    async def _call(self, method: str, request: bytes, deadline: float) -> bytes:
        address = self._login.addresses[self._current]
        link = self._links.to(address)
        left = deadline - self.now()
        if left <= 0.0:
            raise EngineUnavailable(f"etcd at {address}: no time was left to ask", sent=False)
        try:
            patience = LOGIN if method == AUTHENTICATE else IO
            return whole(await self._send(link.calls[method], request, min(left, patience)))
        except grpc.RpcError as error:
            said = str(error.details())
            if self.suspect(said):  # refused unread: greet, and say it again
                raise EngineUnavailable(f"etcd at {address}: {said}", sent=False) from error
            failure = failed(error, address)
            if isinstance(failure, EngineUnavailable) and not isinstance(failure, Leaseless):
                self.doubt(address)
            raise failure from error

    async def call_all(
        self, method: str, requests: Sequence[bytes], deadline: float
    ) -> list[bytes]:
        """Send several requests that are harmless all at once, when one was answered."""
        replies = [await self.call(method, request, deadline) for request in requests[:1]]
        if len(requests) > 1:
            link = self._links.to(self.address)
            left = min(IO, max(deadline - self.now(), 0.01))
            try:
                more = await self._send_all(link.calls[method], requests[1:], left)
                replies += map(whole, more)
            except grpc.RpcError as error:
                raise failed(error, link.address) from error
        return replies

    async def call_on(self, address: str, method: str, request: bytes, deadline: float) -> bytes:
        """Ask one member and no other."""
        if self._strange:
            await self._greet(deadline)
        link = self._links.to(address)
        try:
            left = min(IO, max(deadline - self.now(), 0.01))
            return whole(await self._send(link.calls[method], request, left))
        except grpc.RpcError as error:
            raise failed(error, address) from error

    def doubt(self, address: str) -> None:
        """Note that a member has failed: the next one is asked from now on."""
        if address == self.address:
            self._current = (self._current + 1) % len(self._login.addresses)

    async def _greet(self, deadline: float) -> None:
        """Log in; the token that comes of it expires."""
        try:
            await self._greeting.hold(lambda: self._authenticate(deadline), deadline)
        except Crowded:
            raise crowded() from None

    async def _authenticate(self, deadline: float) -> None:
        if not self._strange:
            return  # another has, while this one waited
        name, password = self._login.username or "", self._login.secret() or ""
        request = text(1, name.encode()) + text(2, password.encode())
        self._metadata = (LEADER,)
        try:
            token = part(await self._call(AUTHENTICATE, request, deadline), 2).decode(
                "ascii", "replace"
            )
            if not token.isprintable() or not token.isascii():
                raise Malformed("a token that no header can carry")
        except EngineUnavailable as error:
            raise EngineUnavailable(str(error), sent=False) from error  # what waits was not sent
        self._metadata = (LEADER, ("token", token))
        self._strange = False

    def suspect(self, said: str) -> bool:
        """Take in what etcd has said when it refused something; tell whether the login is over."""
        over = self._login.username is not None and any(each in said for each in STALE_LOGIN)
        self._strange = self._strange or over
        return over

    def leads(self, stream: Stream) -> bool:
        """Return whether a stream goes to the member that is asked, with the login that is used."""
        known = self._strange or stream.metadata == self._metadata
        return known and stream.address == self.address

    async def stream(self) -> Stream:
        """Open a stream of watches to the member that is asked at present."""
        if self._strange:
            await self._greet(self.now() + LOGIN)
        link = self._streams.to(self.address)
        return Stream(link.channel, link.address, self._metadata, self.rouse)

    @abstractmethod
    async def _send(self, call: Any, request: bytes, timeout: float) -> bytes | None:
        """Send one request and wait for its reply."""

    @abstractmethod
    async def _send_all(self, call: Any, requests: Sequence[bytes], timeout: float) -> list[bytes]:
        """Send several requests, and wait for all replies."""

    async def pause(self, deadline: float | None) -> None:
        """Sleep until a rouse or the deadline."""
        await self._bell.wait(deadline)

    def rouse(self) -> None:
        """End a pause now, or the next one. From any thread; never raises."""
        self._bell.ring()

    @abstractmethod
    def reset(self) -> None:
        """Forget all channels: the process has forked."""

    @abstractmethod
    async def close(self) -> None:
        """Close all channels."""
        self._bell.close()
