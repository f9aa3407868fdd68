"""A leader that was replaced and does not know it."""

import contextlib
import time
from collections.abc import Callable

from tests.robustness.faults.fault import Damage, Fault, Order, Stage, chosen, told
from tests.robustness.hosts import host_of
from tests.servers.process import Server, ServerError, wait_until

_MOVE = 0.6  # of the ttl: until the client has found the leader, and renewed there
_LATE = (0.75, 0.6)  # of the ttl, by turns: nearly all leases are still held then, or all of them
_AGAIN = 0.15  # of the ttl: for which the old leader goes on, and may answer
_AFTER = 1.3  # of the ttl: until the successor has let end what was not renewed, and granted it
_ELECTION = 20.0  # seconds


class DeposedLeader(Fault):
    """The leader is cut off from the others and paused; a successor is elected. Then the old one
    goes on for a moment, still cut off, and one client reaches nobody else.

    Whatever the old leader answers by itself, a lease that lives on it is nobody's: the successor
    lets it end and grants the lock to another client.
    """

    kind = "deposed-leader"

    def begin(self, stage: Stage, order: Order) -> Damage:
        """Do it all; what is left to undo are the cuts, and a pause."""
        site, ttl = stage.site, stage.ttl
        site.wait_sound()
        leader = site.leader()
        others = site.peers(leader)
        victim = chosen(order.rng, stage.workers)
        undo: list[Callable[[], None]] = [lambda: _go_on(leader)]
        try:
            past = [site.front(each).address for each in others]
            undo.append(host_of(victim).refuse(*past))
            time.sleep(_MOVE * ttl)
            undo.append(host_of(leader).cut(*map(host_of, others)))
            leader.pause()
            began = time.monotonic()
            wait_until(lambda: any(map(site.leads, others)), "a successor", _ELECTION)
            time.sleep(max(0.0, began + _LATE[order.turn % len(_LATE)] * ttl - time.monotonic()))
            leader.resume()
            time.sleep(_AGAIN * ttl)
            leader.pause()
            time.sleep(_AFTER * ttl)
        except BaseException:
            _undo(undo)
            raise
        said = f"deposed {told(leader)}, and {told(victim)} reached it alone"
        return Damage(said, lambda: _undo(undo))


def _undo(steps: list[Callable[[], None]]) -> None:
    for step in steps:
        step()


def _go_on(server: Server) -> None:
    with contextlib.suppress(ServerError, ProcessLookupError):  # another fault may have killed it
        server.resume()
