"""The blocking transport: a bundle of sockets, one to each node, for each thread with a request.

A thread writes to all sockets of its bundle, and then reads them all with one poll. A node that
answers late owes its replies. The next user of the bundle reads them and passes them to `late`.
"""

from __future__ import annotations

import math
import select
import ssl
from collections.abc import Sequence
from typing import Any

import hiredis

from lockfast.engines.redis.channels import Change
from lockfast.engines.redis.connection import GRACE
from lockfast.engines.redis.threads import heard
from lockfast.engines.redis.transport import FRESH, PING, Address
from lockfast.engines.redlock.bundles import Bundle, Bundles
from lockfast.engines.redlock.connection import OPENING, Line
from lockfast.engines.redlock.transport import Answer, Hear
from lockfast.engines.sockets import reason
from lockfast.errors import EngineError, EngineUnavailable

OVERDUE = 1.0  # seconds of silence after which a node counts as down

Waiting = tuple[int, Line, list[Any]]


class ThreadTransport(Bundles):
    """Sends requests to all nodes at once, through a bundle that no other thread is using."""

    async def scatter(
        self,
        requests: Sequence[bytes | None],
        count: int,
        deadline: float,
        hear: Hear | None,
        *,
        heart: bool = False,
    ) -> None:
        """Write to all nodes, then read their replies with one poll."""
        try:
            bundle = self._hearts if heart else self._bundles.pop()
        except IndexError:  # all are in use
            bundle = {}
        try:
            self._exchange(bundle, requests, count, deadline, hear)
        except BaseException:  # Ctrl-C: `owed` may not count what was written
            self._scrap(bundle)
            raise
        if not heart:
            owing = any(line.owed for line in bundle.values())
            self._bundles.append(bundle)
            if owing and not self._noted:
                self._noted = True
                self.owing()

    def catch_up(self) -> bool:
        """Read late replies on the bundles that no thread is using."""
        self._noted = False  # before the bundles are read: a thread may leave another one behind
        now = self._now()
        for _ in range(len(self._bundles)):
            try:
                bundle = self._bundles.pop(0)
            except IndexError:  # threads have taken them meanwhile
                break
            for index, address in enumerate(self.nodes):
                line = bundle.get(address)
                if line is not None and line.owed:
                    self._caught_up(bundle, index, line, now)
            self._noted = self._noted or any(line.owed for line in bundle.values())
            self._bundles.append(bundle)
        return self._noted

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
        """Return a connection to each node that is asked, or the error why there is none."""
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
        """Send a PING on connections that were idle for long, and drop those without an answer."""
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
            if self._now() > end + GRACE:
                break  # a node sends without end
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
        """Read what a connection owes before it is used again. It may have ended meanwhile, and a
        request written to it would be lost without an error.

        Return the connection, None if the caller must open another, or the error of a node that is
        down.
        """
        if line.tls and not line.readable():
            error = None
        else:
            error = self._collect(bundle, (index, line, []), 0)
        if error is not None:
            return None
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
            if not events or now > deadline + GRACE:  # a node may send without end
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
        except Exception as error:  # noqa: BLE001  # the parser raises many types
            return self._drop_line(bundle, line, error)
        if late:
            line.since = self._now()
            for each in late:
                if type(each) is list:
                    self.late(index, each)
        return None

    async def ear(self, address: Address, deadline: float) -> Line:
        """Return the heart's connection to a node, on which messages arrive."""
        self._shake_off()
        ear = self._hearts.get(address) or self._line(self._hearts, address, deadline)
        if isinstance(ear, EngineError):
            raise ear
        return ear

    async def change(
        self, ear: Line, changes: Sequence[Change], deadline: float
    ) -> list[hiredis.ReplyError | None]:
        """Change what the heart's connection subscribes to. Return for each None or its error."""
        try:
            return ear.change(changes, deadline)
        except BaseException as error:
            self._hearts.pop(ear.address, None)
            ear.sock.close()
            if isinstance(error, Exception):
                why = f"Redis at {ear.address}: {reason(error)}"
                raise EngineUnavailable(why, sent=True) from error
            raise

    async def listen(self, address: Address, deadline: float | None) -> list[bytes]:
        """Wait for messages from one node. Also return those that came with replies of others."""
        messages = await heard(self._hearts, address, self._bell, deadline)
        for line in self._hearts.values():
            messages += line.pushes
            line.pushes = []
        for index, node in enumerate(self.nodes):
            heart = self._hearts.get(node)
            while heart is not None and heart.skipped:
                self.late(index, heart.skipped.pop(0))
        return messages

    def post(self, request: bytes) -> None:
        """Do nothing. The heart will send the request."""
