"""Opens, closes and reopens the connections of a blocking client, in bundles of one to each node.

A separate thread tries again to reach a node that is down, so that no caller waits for it.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from typing import Any

from lockfast.engines.redis.threads import opened
from lockfast.engines.redis.transport import Address, Login
from lockfast.engines.redlock.connection import OPENING, Line
from lockfast.engines.redlock.transport import AGAIN, ignored
from lockfast.engines.sockets import reason
from lockfast.errors import EngineError, EngineUnavailable
from lockfast.runtime.base import Clock
from lockfast.runtime.threads import ThreadBell

Bundle = dict[Address, Line]


class Bundles:
    """The connections of a blocking client."""

    def __init__(self, nodes: Sequence[Address], login: Login, clock: Clock) -> None:
        """Create a transport without connections."""
        self.nodes = nodes
        self.late: Callable[[int, Any], object] = ignored
        self.lost: Callable[[int], object] = bool
        self.owing: Callable[[], object] = bool
        self._login = login
        self._now = clock
        self._begin()

    def _begin(self) -> None:
        self._hearts: Bundle = {}
        self._bundles: list[Bundle] = []
        self._spares: dict[Address, list[Line]] = {}
        self._down: dict[Address, tuple[float, float, EngineError]] = {}
        """Nodes that were not reached: when to try again, the length of this pause, and why."""
        self._given_up: dict[Address, float] = {}
        """When `forget` was called for a node. Connections opened before are not used any more."""
        self._noted = False
        """Whether `owing` was called since the last `catch_up`."""
        self._closed = threading.Event()
        self._bell = ThreadBell(self._now)

    def _line(self, bundle: Bundle, address: Address, deadline: float) -> Line | EngineError:
        """Return a connection to a node that can be used, or the error why there is none."""
        try:
            line = self._spares[address].pop()
        except LookupError:  # there is none, or another thread took it
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
            line = self._open(address, min(deadline, self._now() + OPENING))
        except EngineError as error:
            self._mark_down(address, error)
            return error
        bundle[address] = line
        return line

    def _open(self, address: Address, deadline: float) -> Line:
        return opened(Line, address, self._login, deadline, self._now)[0]

    def _mark_down(self, address: Address, why: EngineError) -> None:
        known = self._down.get(address)  # another thread may remove it
        pause = AGAIN[0] / 2 if known is None else known[1]
        pause = min(pause * 2, AGAIN[1])
        self._down[address] = (self._now() + pause, pause, why)

    def _probe(self, address: Address, closed: threading.Event) -> None:
        """Try to reach a node that was down. This runs in a thread of its own."""
        try:
            line = self._open(address, self._now() + OPENING)
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
        """Stop using the connections to a node that are open now. Their users close them."""
        self._given_up[address] = self._now()
        self._bell.ring()

    def _outdated(self, line: Line) -> bool:
        return line.opened <= self._given_up.get(line.address, -math.inf)

    def _shake_off(self) -> None:
        """Close the heart's connections to nodes for which `forget` was called."""
        for address in [a for a, line in self._hearts.items() if self._outdated(line)]:
            self._hearts.pop(address).sock.close()

    def _scrap(self, bundle: Bundle) -> None:
        for line in bundle.values():
            line.sock.close()
        bundle.clear()

    def _empty_spares(self) -> None:
        for spares in self._spares.values():
            while spares:
                spares.pop().sock.close()

    def _drop(self) -> None:
        self._closed.set()
        self._empty_spares()
        while self._bundles:
            self._scrap(self._bundles.pop())
        self._scrap(self._hearts)
        self._bell.close()

    async def pause(self, deadline: float | None) -> None:
        """Wait until the bell rings or the deadline passes."""
        await self._bell.wait(deadline)

    def rouse(self) -> None:
        """Ring the bell, which ends `listen` or `pause`."""
        self._bell.ring()

    def reset(self) -> None:
        """Start again in a forked child. Closing its descriptors sends nothing to the nodes."""
        self._drop()
        self._begin()

    async def close(self) -> None:
        """Close all connections."""
        self._drop()
