"""One request of HTTP to the parts of a replica, which answer connections by `answer`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from lockfast.engines.remote.messages import Asked, Claim, Fault, Renew, Reply, Resign, Said, Stood
from lockfast.port import LONGEST_WAIT
from lockfast.service.caller import Caller
from lockfast.service.replica import Replica
from lockfast.service.requests import LONGEST_CALL

R = TypeVar("R")
Handler = Callable[["Call", int, R], None]
TOO_LATE = Fault("unavailable", "the engine got the request too late: send it again", sent=False)
OVERTAKEN = Fault(
    "unavailable", "a later request about this lock has overtaken this one", sent=False
)
PATIENCE = 2.0  # a renewal may take as much of the ttl as one part in so many


class Failure(Exception):  # never leaves the package
    """The engine did not do what it was asked."""

    def __init__(self, fault: Fault) -> None:
        """Take what the engine said."""
        super().__init__(fault.why)
        self.fault = fault


class Origin(NamedTuple):
    """Where a request to the parts of a replica comes from."""

    replica: Replica
    who: Caller
    epoch: int


class Call:
    """One request. It has an answer in any case, so nothing here has a time limit."""

    client = ""
    ended = False
    kept = None

    def __init__(self, caller: Caller) -> None:
        """Wait for the answer. `caller`: whose rights and limits count."""
        self.caller = caller
        self._future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()

    def answer(self, reply: Reply) -> None:
        """Take the reply."""
        if not self._future.done():  # whoever waits may have been cancelled
            self._future.set_result(reply)

    async def reply(self) -> Reply:
        """Wait for the reply."""
        return await self._future


class Epochs:
    """Numbers the requests of all clients, as connections are numbered.

    A client that comes to another replica must have a higher number there, and nothing counts for
    it. So it is the time. On etcd, replicas on several machines need synchronised clocks anyway.
    """

    def __init__(self) -> None:
        """Begin with the present time."""
        self._last = 0

    def next(self) -> int:
        """Return the next number. It grows also if the clock is set back."""
        self._last = max(self._last + 1, time.time_ns() // 1_000)
        return self._last


async def ask(origin: Origin, handler: Handler[R], request: R) -> Reply:
    """Give a request to a part of the replica, and return its reply."""
    call = Call(origin.who)
    handler(call, origin.epoch, request)
    return await call.reply()


async def claim(origin: Origin, asked: Asked, wait_ttl: float) -> Stood | None:
    """Make a claim. None: its id is dead. Raise `Failure` if the engine did not do it."""
    told = await engine_time(origin, asked)
    asked.not_after = told + wait_ttl
    said = await ask(origin, origin.replica.claims.claim, Claim(0, LONGEST_CALL, [asked]))
    return _standing(said)


async def renew(
    origin: Origin, asked: Asked, *, urgent: bool, patience: float | None = None
) -> Stood | None:
    """Renew a claim. None: it is gone. Raise `Failure` if the engine did not do it. `patience`: for
    how long its reply is of use. None: as long as the lease allows.
    """
    request = Renew(0, within([asked]) if patience is None else patience, [asked], urgent)
    return _standing(await ask(origin, origin.replica.claims.renew, request))


async def engine_time(origin: Origin, asked: Asked) -> float:
    """Return the present time of the engine's server for this claim."""
    told = origin.replica.claims.time(asked.name)
    if told is not None:
        return told
    asked.not_after = None  # nothing is claimed, and the reply tells the time
    said = await ask(origin, origin.replica.claims.claim, Claim(0, LONGEST_CALL, [asked]))
    _standing(said)
    assert isinstance(said, Said)  # noqa: S101  # for mypy
    if said.now is None:
        raise Failure(Fault("unavailable", "the engine does not tell its time", sent=False))
    return said.now


def within(asks: list[Asked]) -> float:
    """Return how long a renewal may take: a reply after the end of a lease would be of no use."""
    shortest = min(min(asked.ttl, LONGEST_WAIT) for asked in asks)
    return min(shortest / PATIENCE, LONGEST_CALL)


def resignation(asked: Asked, *, doubt: bool) -> Resign:
    """Return the request that removes a claim."""
    return Resign(0, LONGEST_CALL, [asked], doubt)


def _standing(said: Reply) -> Stood | None:
    assert isinstance(said, Said)  # noqa: S101  # no other reply comes to a claim or renewal
    if said.faults:
        raise Failure(said.faults[0])
    return said.results[0]
