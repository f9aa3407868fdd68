"""Clocks that jump, forward and back, while the process runs."""

from collections.abc import Sequence
from typing import ClassVar

from tests.robustness.faults.fault import Damage, Fault, Order, Stage, chosen, told
from tests.servers.clock import ServerClock
from tests.servers.process import Server

_HOUR = 3600.0


class ClockServer(Fault):
    """A server's wall clock jumps, and later jumps back."""

    kind = "clock-server"
    breaks: ClassVar[frozenset[str]] = frozenset({"clock"})

    def begin(self, stage: Stage, order: Order) -> Damage:
        """Move the leader's on every other turn, else anyone's."""
        leader = order.turn % 2 == 0
        servers = [stage.site.leader()] if leader else stage.site.servers
        return _jump(servers, stage, order)


class ClockAhead(Fault):
    """A server's wall clock steps ahead, as when its time was wrong and is set, and stays there."""

    kind = "clock-ahead"
    breaks: ClassVar[frozenset[str]] = frozenset({"clock"})

    def begin(self, stage: Stage, order: Order) -> Damage:
        """Move the leader's on every other turn, else anyone's."""
        leader = order.turn % 2 == 0
        server = chosen(order.rng, [stage.site.leader()] if leader else stage.site.servers)
        by = (0.5 * stage.ttl, 2.0 * stage.ttl, 60.0)[order.turn % 3]
        ServerClock.of(server).advance(by)
        return Damage(f"moved the clock of {told(server)} ahead by {by:g} s", lambda: None)


class ClockClient(Fault):
    """A client's wall clock jumps. It breaks nothing: no lease is measured by it."""

    kind = "clock-client"

    def begin(self, stage: Stage, order: Order) -> Damage:
        """Move one."""
        return _jump(stage.workers, stage, order)


def _jump(servers: Sequence[Server], stage: Stage, order: Order) -> Damage:
    ttl = stage.ttl
    jumps = (_HOUR, -ttl, ttl, -_HOUR, 1.0, -1.0)
    by = jumps[order.turn % len(jumps)]
    server = chosen(order.rng, servers)
    clock = ServerClock.of(server)
    clock.advance(by)
    return Damage(f"moved the clock of {told(server)} by {by:+g} s", lambda: clock.advance(-by))
