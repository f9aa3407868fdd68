"""The blocking transport: a bundle of plain sockets for each thread at work, one to each node.

A bundle writes to all of its sockets, and then reads them all with one poll. A node that answers
late owes its replies; they are skipped when the bundle is used next. A node that was not reached is
tried again by a thread of its own, so that nobody waits for it.
"""

from __future__ import annotations

import math
import select
import ssl
import threading
from collections.abc import Callable, Sequence
from typing import Any

import hiredis

from lockfast.engines.redis.threads import ThreadTransport as RedisThreads
from lockfast.engines.redis.transport import FRESH, PING, Address, Login, reason
from lockfast.engines.redlock.connection import OPENING, Line
from lockfast.engines.redlock.transport import AGAIN, Answer, Hear, ignored
from lockfast.errors import EngineError, EngineUnavailable
from lockfast.runtime.base import Clock

OVERDUE = 1.0  # seconds of silence after which a node is taken to be down


Bundle = dict[Address, Line]
Waiting = tuple[int, Line, list[Any]]


class ThreadTransport(RedisThreads):
    """Bundles of a blocking client."""

    connection = Line
    _hearts: Bundle  # type: ignore[assignment]  # every connection here is a Line

    def __init__(self, nodes: Sequence[Address], login: Login, clock: Clock) -> None:
        """Nothing is open yet."""
        self.nodes = nodes
        self.late: Callable[[int, Any], object] = ignored
        self.lost: Callable[[int], object] = bool
        super().__init__(login, clock)

    def _begin(self) -> None:
        super()._begin()
        self._bundles: list[Bundle] = []
        self._spares: dict[Address, list[Line]] = {}
        self._down: dict[Address, tuple[float, float, EngineError]] = {}
        """Nodes that were not reached: when to try again, the pause after that, and why."""
        self._given_up: dict[Address, float] = {}
        """Nodes to which older connections than this are not used any more."""
        self._closed = threading.Event()

    async def scatter(
        self,
        requests: Sequence[bytes | None],
        count: int,
        deadline: float,
        hear: Hear | None,
        *,
        heart: bool = False,
    ) -> None:
        """Write to all, then read all with one poll."""
        try:
            bundle = self._hearts if heart else self._bundles.pop()
        except IndexError:  # all are at work
            bundle = {}
        try:
            self._exchange(bundle, requests, count, deadline, hear)
        except BaseException:  # Ctrl-C: what was written is not counted
            self._scrap(bundle)
            raise
        if not heart:
            self._bundles.append(bundle)

    def _exchange(
        self,
        bundle: Bundle,
        requests: Sequence[bytes | None],
        count: int,
        deadline: float,
        hear: Hear | None,
    ) -> None:
        now = self._now()
        poll = select.poll()
        waiting: dict[int, Waiting] = {}
        failed: list[tuple[int, EngineError]] = []
        lines = self._lines(bundle, requests, now, deadline)
        for index, packet in enumerate(requests):
            line = lines[index]
            if packet is None or line is None:
                continue
            if not isinstance(line, Line):
                failed.append((index, line))
                continue
            try:
                line.put(packet)
            except (OSError, hiredis.HiredisError) as error:
                failed.append((index, self._drop_line(bundle, line, error)))
                continue
            if not line.owed:
                line.since = now
            line.used = now
            line.owed += count
            waiting[line.fd] = (index, line, [])
            poll.register(line.fd, select.POLLIN)
        if hear is None:
            return
        for index, why in failed:
            if not hear(index, why):
                return
        self._read(bundle, waiting, poll, count, deadline, hear)

    def _lines(
        self, bundle: Bundle, requests: Sequence[bytes | None], now: float, deadline: float
    ) -> list[Line | EngineError | None]:
        """Find a line to each node that is asked, or why there is none."""
        lines: list[Line | EngineError | None] = []
        idle = [each for each in bundle.values() if not each.owed and now - each.used > FRESH]
        if idle:
            self._try(bundle, idle, min(max((deadline - now) / 3, 0.05), OPENING))
        for index, (address, packet) in enumerate(zip(self.nodes, requests, strict=True)):
            line: Line | EngineError | None = bundle.get(address)
            if packet is not None:
                if self._given_up and isinstance(line, Line) and self._outdated(line):
                    bundle.pop(address).sock.close()
                    line = None
                if isinstance(line, Line) and line.owed:
                    line = self._caught_up(bundle, index, line, now)
                if line is None:
                    line = self._line(bundle, address, deadline)
            lines.append(line)
        return lines

    def _try(self, bundle: Bundle, idle: Sequence[Line], seconds: float) -> None:
        """Ask connections that were idle for long with a PING each, and drop the silent ones."""
        poll = select.poll()
        waiting: dict[int, Line] = {}
        for line in idle:
            try:
                line.put(PING)
            except OSError as error:
                self._drop_line(bundle, line, error)
                continue
            line.owed = 1
            line.since = line.used = self._now()
            waiting[line.fd] = line
            poll.register(line.fd, select.POLLIN)
        end = self._now() + seconds
        while waiting and (events := poll.poll(max(end - self._now(), 0.0) * 1000)):
            for fd, _ in events:
                line = waiting[fd]
                index = self.nodes.index(line.address)
                if self._collect(bundle, (index, line, []), 0) is not None or not line.owed:
                    poll.unregister(fd)
                    del waiting[fd]
        for line in waiting.values():
            self._drop_line(bundle, line, TimeoutError("no answer in time"))

    def _caught_up(
        self, bundle: Bundle, index: int, line: Line, now: float
    ) -> Line | EngineError | None:
        """Read what a line owes before it is used again: it may have ended since, and what is
        written to it then would be lost without a word.
        """
        if line.tls and not line.readable():
            error = None
        else:
            error = self._collect(bundle, (index, line, []), 0)
        if error is not None:
            return None  # another is opened
        if line.owed and now - line.since > OVERDUE:
            late = TimeoutError("no answer in time")
            why = self._drop_line(bundle, line, late)
            self._mark_down(line.address, why)
            return why
        return line

    def _read(  # noqa: PLR0913, PLR0917  # the state of one exchange
        self,
        bundle: Bundle,
        waiting: dict[int, Waiting],
        poll: select.poll,
        count: int,
        deadline: float,
        hear: Hear,
    ) -> None:
        clock = self._now
        while waiting:
            now = clock()
            events = poll.poll((deadline - now) * 1000 if deadline > now else 0)
            if not events:
                return
            for fd, _ in events:
                index, line, replies = waiting[fd]
                answer: Answer | None = self._collect(bundle, waiting[fd], count)
                if answer is None:
                    line.since = now
                    if len(replies) < count:
                        continue
                    answer = replies
                del waiting[fd]
                poll.unregister(fd)
                patience = hear(index, answer)
                if not patience:
                    return
                if patience < math.inf:
                    deadline = min(deadline, clock() + patience)

    def _collect(self, bundle: Bundle, waiting: Waiting, count: int) -> EngineError | None:
        index, line, replies = waiting
        try:
            late = line.collect(replies, count)
        except (BlockingIOError, ssl.SSLWantReadError):
            return None
        except Exception as error:  # noqa: BLE001  # the parser raises much
            return self._drop_line(bundle, line, error)
        if late:
            line.since = self._now()
            for each in late:
                if type(each) is list:
                    self.late(index, each)
        return None

    def _line(self, bundle: Bundle, address: Address, deadline: float) -> Line | EngineError:
        """Give a line that can be used, or say why there is none."""
        try:
            line = self._spares[address].pop()
        except LookupError:  # there is none, or another thread was quicker
            pass
        else:
            if not self._outdated(line):
                bundle[address] = line
                return line
            line.sock.close()
        down = self._down.get(address)
        if down is not None:
            again, pause, why = down
            if self._now() >= again:
                self._down[address] = (self._now() + OPENING + pause, pause, why)
                threading.Thread(
                    target=self._probe, args=(address, self._closed), daemon=True
                ).start()
            return why
        try:
            line = self._opened(address, min(deadline, self._now() + OPENING))
        except EngineError as error:
            self._mark_down(address, error)
            return error
        bundle[address] = line
        return line

    def _opened(self, address: Address, deadline: float) -> Line:
        line = self._open(address, deadline)
        assert isinstance(line, Line)  # noqa: S101  # for the type checker
        line.begin(self._now())
        return line

    def _mark_down(self, address: Address, why: EngineError) -> None:
        known = self._down.get(address)  # another thread may take it out
        pause = AGAIN[0] / 2 if known is None else known[1]
        pause = min(pause * 2, AGAIN[1])
        self._down[address] = (self._now() + pause, pause, why)

    def _probe(self, address: Address, closed: threading.Event) -> None:
        """Try, in a thread of its own, to reach a node that was down."""
        try:
            line = self._opened(address, self._now() + OPENING)
        except EngineError as error:
            self._mark_down(address, error)
            return
        if closed.is_set():
            line.sock.close()
            return
        self._spares.setdefault(address, []).append(line)
        self._down.pop(address, None)
        if closed.is_set():
            self._empty_spares()

    def _drop_line(self, bundle: Bundle, line: Line, error: BaseException) -> EngineError:
        bundle.pop(line.address, None)
        line.sock.close()
        self.lost(self.nodes.index(line.address))
        return EngineUnavailable(f"Redis at {line.address}: {reason(error)}", sent=True)

    def forget(self, address: Address) -> None:
        """Use no connection to a node that is open now. Who has one at hand closes it."""
        self._given_up[address] = self._now()
        self._bell.ring()

    def _outdated(self, line: Line) -> bool:
        return line.opened <= self._given_up.get(line.address, -math.inf)

    def _shake_off(self) -> None:
        """Close those of the heart's connections that were given up."""
        for address in [a for a, line in self._hearts.items() if self._outdated(line)]:
            self._hearts.pop(address).sock.close()

    def _scrap(self, bundle: Bundle) -> None:
        for line in bundle.values():
            line.sock.close()
        bundle.clear()

    async def listen(
        self, address: Address, channel: str, deadline: float | None
    ) -> list[bytes] | None:
        """Sleep on one node; hear also what others have said while they were asked."""
        messages = await super().listen(address, channel, deadline)
        if messages is not None:
            for line in self._hearts.values():
                messages += line.pushes
                line.pushes = []
        for index, node in enumerate(self.nodes):
            heart = self._hearts.get(node)
            while heart is not None and heart.skipped:
                self.late(index, heart.skipped.pop(0))
        return messages

    def _subscribe(self, address: Address, channel: str, deadline: float) -> None:
        if address not in self._hearts:
            line = self._line(self._hearts, address, deadline)
            if isinstance(line, EngineError):
                raise line
        super()._subscribe(address, channel, deadline)

    def post(self, request: bytes) -> None:  # type: ignore[override]  # to all of them
        """Nothing: the heart will do it."""

    def _empty_spares(self) -> None:
        for spares in self._spares.values():
            while spares:
                spares.pop().sock.close()

    def _drop(self) -> None:
        self._closed.set()
        self._empty_spares()
        while self._bundles:
            self._scrap(self._bundles.pop())
        super()._drop()
