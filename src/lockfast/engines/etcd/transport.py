"""What both transports share: endpoints and failover, and the login.

Over gRPC with requests and replies as plain bytes. The driver retries nothing by itself: a claim
that is sent twice must be known to have been.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc

from lockfast.engines.etcd.failures import Leaderless, Leaseless, crowded, failed
from lockfast.engines.etcd.messages import (
    AUTHENTICATE,
    GRANT,
    KEEP,
    MEMBERS,
    METHODS,
    RANGE,
    TIME_TO_LIVE,
)
from lockfast.engines.etcd.protobuf import Malformed, part, text
from lockfast.engines.etcd.watch_stream import Stream
from lockfast.errors import EngineUnavailable
from lockfast.runtime.base import Crowded, Runtime, T
from lockfast.url import Secret

IO = 1.0  # seconds after which an unanswered request is given up: another member may answer
LOGIN = 5.0  # seconds for a login: etcd makes checking a password slow, on purpose
OPTIONS = (
    ("grpc.enable_retries", 0),
    ("grpc.initial_reconnect_backoff_ms", 50),
    # How long making a connection may take: three round trips with TLS, and less than IO.
    ("grpc.min_reconnect_backoff_ms", 500),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.keepalive_time_ms", 10_000),  # etcd takes offence at pings within five seconds
    ("grpc.keepalive_timeout_ms", 3_000),
    ("grpc.max_receive_message_length", -1),
)
ELECTION = 0.05  # seconds between questions whether there is a leader again
HARMLESS = frozenset([RANGE, KEEP, TIME_TO_LIVE, GRANT, MEMBERS])
"""A lease that was granted twice expires once; the others change nothing, or nothing more."""
STALE_LOGIN = ("invalid auth token", "revision of auth store is old")
LEADER = ("hasleader", "true")  # a member that has lost its leader says so at once

Metadata = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Login:
    """Where the members are, and how to greet them."""

    addresses: tuple[str, ...]
    username: str | None = None
    secret: Secret = field(default=lambda: None, repr=False)
    credentials: grpc.ChannelCredentials | None = None
    certified: bool = False
    """Whether it has a certificate of its own."""

    def channel(self) -> Callable[[str], grpc.Channel]:
        """Return what opens a blocking channel to a member."""
        return lambda address: (
            grpc.insecure_channel(address, OPTIONS)
            if self.credentials is None
            else grpc.secure_channel(address, self.credentials, OPTIONS)
        )


class Link:
    """The calls that a member takes."""

    __slots__ = ("address", "calls", "channel")

    def __init__(self, address: str, channel: Any) -> None:
        """Wrap a channel of grpc or grpc.aio. A channel connects on its first call."""
        self.address = address
        self.channel = channel
        self.calls = {method: channel.unary_unary(method, None, None) for method in METHODS}


def whole(reply: bytes | None) -> bytes:
    """Check that there is a reply: gRPC gives None for a stream that ends well and without one."""
    if reply is None:
        raise Malformed("none")
    return reply


class Transport(ABC):
    """A transport. The abstract methods wait: in a thread, or in asyncio."""

    def __init__(self, login: Login, runtime: Runtime) -> None:
        """Nothing is opened yet."""
        self._login = login
        self.now = runtime.now
        self.mutex = runtime.mutex
        self._sleep = runtime.sleep
        self._bell = runtime.bell()
        self._current = 0
        self._links: dict[str, Link] = {}
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
        return self._login.username is not None and self._login.credentials is None

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
        link = self._links.get(address)
        if link is None:
            link = self._links[address] = self._open(address)
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
            link = self._links[self.address]
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
        channel = self._links.get(address) or self._open(address)
        self._links[address] = channel
        try:
            left = min(IO, max(deadline - self.now(), 0.01))
            return whole(await self._send(channel.calls[method], request, left))
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
        return Stream(self._blocking(self.address), self.address, self._metadata, self.rouse)

    @abstractmethod
    def _blocking(self, address: str) -> grpc.Channel:
        """Return a channel whose streams a thread reads."""

    @abstractmethod
    def _open(self, address: str) -> Link:
        """Make the calls of a member."""

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
