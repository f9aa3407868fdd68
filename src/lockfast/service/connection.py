"""One connection of a client, without I/O: takes frames, and puts frames into an outbox."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from lockfast.engines.remote.identity import client_of
from lockfast.engines.remote.messages import (
    LARGEST,
    VERSION,
    Break,
    Claim,
    Failed,
    Goaway,
    Hear,
    Hello,
    Malformed,
    Renew,
    Reply,
    Request,
    Resign,
    Said,
    Sign,
    Welcome,
    encode,
    request,
)
from lockfast.errors import EngineRefused
from lockfast.service.caller import ANYBODY, Caller
from lockfast.service.claim_requests import ClaimRequests
from lockfast.service.disconnects import Disconnects
from lockfast.service.figures import Figures
from lockfast.service.hearing import Hearing
from lockfast.service.kept import KeptClaims
from lockfast.service.other_requests import OtherRequests
from lockfast.service.outbox import MANY, Outbox
from lockfast.service.overload import Load
from lockfast.service.replies import fault
from lockfast.service.requests import has_foreign
from lockfast.service.sign_requests import SignRequests
from lockfast.service.usage import Overrun, Usage

LITTLE = 0.1  # seconds by which advice must have changed, at least
UNANSWERED = 256  # requests; while there are as many, nothing is read from the client
NORMAL, PROTOCOL, SLOW = 1000, 1002, 1013  # codes of WebSocket's close frame
REASON = 120  # characters of a close frame's reason: at most 123 bytes


class Services(Protocol):
    """The parts of a replica that connections use."""

    figures: Figures
    claims: ClaimRequests
    others: OtherRequests
    signatures: SignRequests
    hearing: Hearing
    disconnects: Disconnects
    load: Load

    def time(self) -> float | None:
        """Return the engine's time, if the replica knows it and there is one clock."""
        ...

    def moves(self) -> bool:
        """Return whether clients can take their claims to another replica."""
        ...

    def left(self, connection: Connection) -> None:
        """Forget a connection that has ended."""


class Connection:
    """One connection of a client. Nothing that the client sends raises an exception here."""

    def __init__(
        self, services: Services, ready: Callable[[], None], caller: Caller = ANYBODY
    ) -> None:
        """Wait for `hello`. `ready` is called when there is something to send."""
        self._services = services
        self.caller = caller
        """Who has connected. It changes when the configuration is read again."""
        self.kept: KeptClaims | None = KeptClaims(services.disconnects, self.wake)
        self.outbox = Outbox(ready)
        self.client = ""
        self.epoch = 0
        self.ended = False
        self._unanswered = 0
        self._spread = 0.0
        """What the client was told last about when to connect again."""

    @property
    def full(self) -> bool:
        """Whether nothing more is to be read for now."""
        crowded = self._unanswered >= UNANSWERED or self.outbox.size > MANY
        return crowded and not self.ended

    def feed(self, frame: bytes | str) -> None:
        """Take a frame of the client."""
        if self.ended:
            return
        if len(frame) > LARGEST:
            self.fail("the message is too large")
            return
        try:
            asked = request(frame)
        except Malformed as error:
            self.fail(f"malformed message: {error}")
            return
        if isinstance(asked, Hello):
            self._greet(asked)
        elif not self.client:
            self.fail("the first message must be hello")
        elif isinstance(asked, Hear):
            self._hear(on=asked.on)
        else:
            self._unanswered += 1
            if self.caller.usage is None or self._within_limits(
                self.caller.usage, asked, len(frame)
            ):
                self._serve(asked)

    def expect_greeting(self) -> None:
        """End the connection unless the client has greeted."""
        if not self.client:
            self.fail("no greeting in time")

    def _greet(self, hello: Hello) -> None:
        if self.client:
            self.fail("hello was sent twice")
        elif hello.v != VERSION:
            self.fail(f"version {hello.v} of the messages is not known here, but {VERSION} is")
        else:
            self.client = client_of(hello.secret)
            self.epoch = hello.epoch
            now, moves = self._services.time(), self._services.moves()
            departs = self._services.claims.departs
            spread = self._spread = self._services.load.spread()
            self._send(Welcome(VERSION, self.client, now, moves, departs, spread))
            self._hear(on=hello.hear)

    def _hear(self, *, on: bool) -> None:
        hearing = self._services.hearing
        (hearing.start if on else hearing.stop)(self)

    def _within_limits(self, usage: Usage, asked: Request, size: int) -> bool:
        """Count a request. Answer it, and return False, if it is one too many."""
        asks = asked.asks if isinstance(asked, Claim | Renew | Resign | Break) else ()
        try:
            usage.request(len(asks) or 1, size, keeps=isinstance(asked, Renew | Resign))
        except Overrun as error:
            self._services.figures.denied.counts["limit",] += 1
            if not isinstance(asked, Hello | Hear):
                self.answer(Failed(asked.n, fault(error)))
            return False
        return True

    def _serve(self, asked: Request) -> None:
        claims = self._services.claims
        if isinstance(asked, Break):  # of claims that are other clients'
            claims.break_(self, self.epoch, asked)
        elif isinstance(asked, Claim | Renew | Resign):
            if has_foreign(asked.asks, self.client):
                self._refuse_foreign(asked)
            elif isinstance(asked, Claim):
                claims.claim(self, self.epoch, asked)
            elif isinstance(asked, Renew):
                claims.renew(self, self.epoch, asked)
            else:
                claims.resign(self, self.epoch, asked)
        elif isinstance(asked, Sign):
            if has_foreign((asked.ask,), self.client):
                self._refuse_foreign(asked)
            else:
                self._services.signatures.sign(self, self.epoch, asked)
        elif not isinstance(asked, Hello | Hear):
            self._services.others.add(self, asked)

    def _refuse_foreign(self, asked: Claim | Renew | Resign | Sign) -> None:
        error = fault(EngineRefused("a claim of the request belongs to another client"))
        self._services.figures.answered(type(asked).__name__.lower(), [error])
        self.answer(Failed(asked.n, error))

    def answer(self, reply: Reply) -> None:
        """Send the reply to a request."""
        self._unanswered -= 1
        if isinstance(reply, Said):
            self._advise(reply)
        self._send(reply)

    def _advise(self, said: Said) -> None:
        """Say in a reply how busy the replica is, and what has changed in it since the greeting."""
        load = self._services.load
        said.busy = load.overloaded
        spread = load.spread()
        if abs(spread - self._spread) > max(self._spread / 2.0, LITTLE):
            said.spread = self._spread = spread

    def wake(self, frame: bytes) -> None:
        """Send an encoded wake."""
        if not self.ended and not self.outbox.add(frame, wake=True):
            self.end(SLOW, "too many messages were not read", drop=True)

    def goaway(self) -> None:
        """Ask the client to connect to another replica."""
        self._send(Goaway())

    def _send(self, reply: Reply) -> None:
        if not self.ended and not self.outbox.add(encode(reply)):
            self.end(SLOW, "too many messages were not read", drop=True)

    def fail(self, why: str) -> None:
        """Say what is wrong with the messages of the client, and end the connection."""
        self._send(Failed(0, fault(EngineRefused(why))))
        self._services.figures.refused.counts["protocol",] += 1
        self.end(PROTOCOL, why)

    def end(self, code: int = NORMAL, reason: str = "", *, drop: bool = False) -> None:
        """End the connection, after what waits to be sent unless that is dropped."""
        if self.ended:
            return
        self.ended = True
        if code == SLOW:
            self._services.figures.refused.counts["slow",] += 1
        self._services.hearing.stop(self)
        self._services.left(self)
        if self.kept is not None:
            self.kept.end(self.caller)
        self.outbox.end(code, reason.encode("ascii", "replace").decode()[:REASON], drop=drop)
