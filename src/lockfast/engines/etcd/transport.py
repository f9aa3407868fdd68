"""The base of both transports: endpoints, failover and login.

gRPC carries requests and replies as plain bytes. Its own retries are off, because lockfast must
know whether a claim was sent twice.
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

IO = 1.0  # seconds to wait for a reply: after that, another member may answer
LOGIN = 5.0  # seconds to wait for a login: etcd checks passwords slowly, on purpose
ELECTION = 0.05  # seconds between attempts while the members elect a leader
HARMLESS = frozenset([RANGE, KEEP, TIME_TO_LIVE, GRANT, MEMBERS])
"""Methods that may be sent twice. Of a lease that was granted twice, the unused one expires. The
others change nothing, or nothing more the second time."""
STALE_LOGIN = ("invalid auth token", "revision of auth store is old")
LEADER = ("hasleader", "true")  # makes a member that has lost its leader say so at once

Metadata = tuple[tuple[str, str], ...]


def whole(reply: bytes | None) -> bytes:
    """Return the reply. Raise `Malformed` if it is None, which gRPC returns for a stream that ends
    without an error and without a reply.
    """
    if reply is None:
        raise Malformed("none")
    return reply


class Transport(ABC):
    """Calls to the members. Subclasses implement how a call waits: in a thread, or in asyncio."""

    _links: Links
    """The links of requests."""
    _streams: Links
    """The links of streams, which a thread reads."""

    def __init__(self, login: Login, runtime: Runtime) -> None:
        """Connect to nothing yet."""
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
        """The addresses of all members in the URL."""
        return self._login.addresses

    @property
    def known(self) -> bool:
        """Whether the client identifies itself, by a user name or a certificate."""
        return self._login.username is not None or self._login.certified

    @property
    def exposed(self) -> bool:
        """Whether the client sends a password without TLS."""
        return self._login.username is not None and self._login.tls is None

    @property
    def address(self) -> str:
        """The address of the current member, to which requests go."""
        return self._login.addresses[self._current]

    async def in_turn(
        self,
        work: Callable[[], Coroutine[Any, Any, T]],
        deadline: float,  # noqa: ARG002  # the blocking transport uses it
    ) -> T:
        """Run `work`, which sends a claim. The blocking transport first waits until fewer claims
        are under way. Tasks need no such limit.
        """
        return await work()

    async def call(
        self, method: str, request: bytes, deadline: float, *, harmless: bool = False
    ) -> bytes:
        """Send a request to the current member, or to the next if that fails. Return the reply.

        A request that was not sent goes to the next member. While the members elect a leader, it is
        tried again until the deadline. A request whose outcome is unknown is sent again only if it
        is harmless to send it twice.
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
        link = self._links.to(self.address)
        left = deadline - self.now()
        if left <= 0.0:
            raise EngineUnavailable(f"etcd at {link.address}: no time was left to ask", sent=False)
        try:
            patience = LOGIN if method == AUTHENTICATE else IO
            return whole(await self._send(link.calls[method], request, min(left, patience)))
        except grpc.RpcError as error:
            said = str(error.details())
            if self.suspect(said):  # etcd did not read it: log in, and send it again
                raise EngineUnavailable(f"etcd at {link.address}: {said}", sent=False) from error
            failure = failed(error, link.address)
            if isinstance(failure, EngineUnavailable) and not isinstance(failure, Leaseless):
                self.doubt(link.address)
            raise failure from error

    async def call_all(
        self, method: str, requests: Sequence[bytes], deadline: float
    ) -> list[bytes]:
        """Send several harmless requests, and return the replies. The first goes out alone, as it
        may have to find a member that answers. The others then go to that member, all at once.
        """
        replies = [await self.call(method, request, deadline) for request in requests[:1]]
        if len(requests) > 1:
            replies += await self._send_to(self.address, method, requests[1:], deadline)
        return replies

    async def call_on(self, address: str, method: str, request: bytes, deadline: float) -> bytes:
        """Send a harmless request to one member and no other, and return the reply."""
        return (await self._send_to(address, method, [request], deadline))[0]

    async def _send_to(
        self, address: str, method: str, requests: Sequence[bytes], deadline: float
    ) -> list[bytes]:
        """Send to one member. If the login has expired, log in and send everything once more."""
        again = False
        while True:
            if self._strange:
                await self._greet(deadline)
            call, left = self._links.to(address).calls[method], max(deadline - self.now(), 0.01)
            try:
                return [whole(each) for each in await self._send_all(call, requests, min(IO, left))]
            except grpc.RpcError as error:
                if again or not self.suspect(str(error.details())):
                    raise failed(error, address) from error
                again = True

    def doubt(self, address: str) -> None:
        """Note that a member has failed. If it is the current one, move on to the next."""
        if address == self.address:
            self._current = (self._current + 1) % len(self._login.addresses)

    async def _greet(self, deadline: float) -> None:
        """Log in. This is done again whenever the token that etcd returns has expired."""
        try:
            await self._greeting.hold(lambda: self._authenticate(deadline), deadline)
        except Crowded:
            raise crowded() from None

    async def _authenticate(self, deadline: float) -> None:
        if not self._strange:
            return  # another caller logged in while this one waited
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
            # The request that needs the login was not sent.
            raise EngineUnavailable(error.message, sent=False) from error
        self._metadata = (LEADER, ("token", token))
        self._strange = False

    def suspect(self, said: str) -> bool:
        """Return whether a refusal means that the login has expired. If so, log in again later."""
        over = self._login.username is not None and any(each in said for each in STALE_LOGIN)
        self._strange = self._strange or over
        return over

    def leads(self, stream: Stream) -> bool:
        """Return whether a stream goes to the current member with the current login."""
        known = self._strange or stream.metadata == self._metadata
        return known and stream.address == self.address

    async def stream(self) -> Stream:
        """Open a stream of watches to the current member."""
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
