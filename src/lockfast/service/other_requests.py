"""The requests that are not about claims: inspect, record, records and guarantees.

They are rare. Each has a task of its own, and only some run at once: a page of claims is large, and
a client may ask for many.
"""

from __future__ import annotations

from collections import deque

from lockfast.engines.remote.messages import (
    LARGEST_REPLY,
    Done,
    Failed,
    Inspect,
    Promise,
    Record,
    Recorded,
    Records,
    Reply,
    encode,
)
from lockfast.errors import EngineRefused, quoted
from lockfast.names import checked, size_of
from lockfast.port import Engine
from lockfast.runtime.base import Clock
from lockfast.service.answers import Client
from lockfast.service.caller import Caller
from lockfast.service.figures import Figures
from lockfast.service.replies import fault, page, promised
from lockfast.service.requests import deadline_of
from lockfast.service.rights import BREAK, INSPECT
from lockfast.service.signed_records import signed
from lockfast.service.tasks import Tasks
from lockfast.service.watch import Watch

AT_ONCE = 16
UNREADABLE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What engines raise for a cursor that they have not made."""
Other = Inspect | Record | Records | Promise
KINDS = {Inspect: "inspect", Record: "record", Records: "records", Promise: "guarantees"}


class OtherRequests:
    """Passes these requests on to the engine, in the order in which they came."""

    def __init__(
        self, engine: Engine, tasks: Tasks, clock: Clock, figures: Figures, watch: Watch
    ) -> None:
        """Begin without requests."""
        self._watch = watch
        self._engine = engine
        self._tasks = tasks
        self._figures = figures
        self._now = clock
        self._waiting: deque[tuple[Client, Other, float]] = deque()
        self._running = 0

    def add(self, client: Client, request: Other) -> None:
        """Answer a request as soon as possible."""
        self._waiting.append((client, request, self._now()))
        if self._running < AT_ONCE:
            self._running += 1
            self._tasks.start(self._run())

    async def _run(self) -> None:
        try:
            while self._waiting:
                client, request, arrived = self._waiting.popleft()
                if not client.ended:
                    reply = await self._reply(client.caller, request, arrived)
                    faults = (reply.fault,) if isinstance(reply, Failed) else ()
                    self._figures.answered(KINDS[type(request)], faults)
                    client.answer(reply)
        finally:
            self._running -= 1

    async def _reply(self, caller: Caller, request: Other, arrived: float) -> Reply:
        try:
            return await self._ask(caller, request, arrived)
        except ValueError as error:  # a name or cursor that cannot be, or a mismatch of kinds
            return Failed(request.n, fault(EngineRefused(quoted(error))))
        except Exception as error:  # noqa: BLE001  # what no engine may raise is logged
            return Failed(request.n, fault(error))

    async def _ask(self, caller: Caller, request: Other, arrived: float) -> Reply:
        if isinstance(request, Inspect):
            self._watch.require(caller, INSPECT, request.names, exact=request.exact)
            return await self._inspect(request)
        deadline = deadline_of(request.within, arrived)
        if isinstance(request, Promise):
            return promised(
                request.n,
                await self._figures.measured("guarantees", 0, self._engine.guarantees(deadline)),
            )
        checked(request.name)
        if isinstance(request, Records):
            self._require_any(caller, request.name)
            return Recorded(
                request.n,
                await self._figures.measured(
                    "records", 0, self._engine.records(request.name, deadline)
                ),
            )
        self._watch.require(caller, BREAK, request.name, request.id)
        _check_line(request.record)
        line = signed(request.record, request.id, caller)
        record = self._engine.record(request.name, request.id, line, deadline)
        await self._figures.measured("record", 0, record)
        self._watch.recorded(caller, request.name, line)
        return Done(request.n)

    def _require_any(self, caller: Caller, name: str) -> None:
        """Raise `Denied` unless a client may do something to a lock: then it may read who has
        broken it, since it may be the one whose lock was broken.
        """
        if caller.rights is not None and not caller.rights.may_any(name):
            self._watch.require(caller, INSPECT, name)

    async def _inspect(self, request: Inspect) -> Reply:
        names, cursor, exact = request.names, request.cursor, request.exact
        if exact:
            checked(names)
        else:
            size_of(names, "the prefix")
        try:
            inspection = self._engine.inspect(names, cursor, exact=exact)
            read = await self._figures.measured("inspect", 0, inspection)
        except (*UNREADABLE, RecursionError) as error:
            if cursor is None:
                raise
            raise EngineRefused("the cursor is not one that this service has returned") from error
        if not exact or cursor is not None:  # it comes from the client, and may lead anywhere
            fits = names.__eq__ if exact else lambda name: name.startswith(names)
            read = read._replace(entries=[entry for entry in read.entries if fits(entry.name)])
        found = page(request.n, read)
        size = len(encode(found))
        if size > LARGEST_REPLY:
            raise EngineRefused(f"a page of {size} bytes is too large: ask for fewer names")
        return found


def _check_line(record: bytes) -> None:
    """Raise `ValueError` unless a record is one line of text. Several lines would be several
    records, and push the others out.
    """
    if b"\n" in record or b"\r" in record:
        raise ValueError("the record of a break must be one line of text")
    record.decode()  # UnicodeDecodeError is a ValueError
