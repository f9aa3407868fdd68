"""The reaper: a thread that removes expired claims whose session is still alive.

A heart that hangs in a callback renews nothing, and neither does an event loop that was stopped.
kazoo's thread still keeps their session alive, and would keep their claims for ever. So the reaper
has a thread of its own, with asyncio too.
"""

from __future__ import annotations

import logging
import threading

from lockfast.engines.zookeeper.failures import SessionLost
from lockfast.engines.zookeeper.messages import remove
from lockfast.engines.zookeeper.own_claims import OwnClaim, OwnClaims
from lockfast.engines.zookeeper.session import Session
from lockfast.engines.zookeeper.threads import ThreadTransport
from lockfast.errors import EngineError, EngineUnavailable
from lockfast.runtime.base import Clock
from lockfast.runtime.drive import drive

log = logging.getLogger("lockfast")
AGAIN = 0.2  # seconds until a removal that failed is tried again
PATIENCE = 2.0  # seconds that one removal may take


class Reaper:
    """The reaper of one engine. Its thread runs from the first claim until `close`."""

    def __init__(self, own: OwnClaims, clock: Clock) -> None:
        """Start no thread yet."""
        self._own = own
        self._now = clock
        self._transport = ThreadTransport(clock)
        self._awake = threading.Condition()
        self._planned = float("inf")
        self._running = False
        self._closed = False

    def expect(self, deadline: float) -> None:
        """Look for expired claims at that time at the latest. Start the thread if necessary."""
        if deadline < self._planned or not self._running:
            with self._awake:
                self._planned = min(self._planned, deadline)
                self._wake()

    def _wake(self) -> None:
        if not self._running and not self._closed:
            self._running = True
            threading.Thread(target=self._run, name="lockfast-reaper", daemon=True).start()
        self._awake.notify()

    def close(self) -> None:
        """Make the thread end, without waiting for it."""
        with self._awake:
            self._closed = True
            self._awake.notify()

    def _run(self) -> None:
        while True:
            with self._awake:
                while not self._closed and self._now() < self._planned:
                    left = self._planned - self._now()
                    self._awake.wait(min(left, 3600.0))
                if self._closed:
                    return
                self._planned = float("inf")
            self._sweep()
            following = self._own.next()
            with self._awake:
                # Failed, or doomed meanwhile by a caller whom Ctrl-C kept from calling `expect`.
                if self._own.any_doomed:
                    self._planned = min(self._planned, self._now() + AGAIN)
                if following is not None:
                    self._planned = min(self._planned, following)

    def _sweep(self) -> None:
        """Try to remove all doomed claims.

        Each claim of a silent session may take `PATIENCE`, and claims of healthy sessions would
        wait behind them. So silent sessions come last, and one that failed is left for this time.
        """
        failed: set[Session] = set()
        doomed = self._own.doomed(self._now())
        for mine in sorted(doomed, key=lambda each: each.session.silent):
            if mine.session not in failed and not self._answered(mine):
                failed.add(mine.session)

    def _answered(self, mine: OwnClaim) -> bool:
        """Try to remove a claim, and return whether its session has answered."""
        try:
            drive(self._remove(mine, self._now() + PATIENCE))
        except SessionLost:  # the server deletes the node with it
            self._own.buried(mine)
        except EngineUnavailable:
            return False
        except EngineError:
            return True  # a refusal, which may concern this node only
        except Exception:  # a bug: a dead reaper would let claims live for ever
            log.exception("internal error while removing expired claims; lockfast continues")
        return True

    async def _remove(self, mine: OwnClaim, until: float) -> None:
        mine.session.check()
        await remove(self._transport, mine, until)
        self._own.buried(mine)
