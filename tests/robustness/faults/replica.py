"""Faults of one replica of the lock service: its clients have others to go to."""

import contextlib
from typing import ClassVar

from tests.robustness.faults.fault import Damage, Fault, Order, Stage, chosen, told
from tests.robustness.hosts import host_of
from tests.servers.process import ServerError
from tests.servers.replica import Replica

ENDED = 30.0  # seconds for a replica to end after SIGTERM: it gives its clients five


def listens(replica: Replica) -> bool:
    """Tell whether a replica accepts connections."""
    with contextlib.suppress(OSError):
        return replica.alive and replica.is_ready()
    return False


class KillReplica(Fault):
    """A replica crashes, and is started again later."""

    kind = "kill-replica"

    def begin(self, stage: Stage, order: Order) -> Damage:
        """Kill one."""
        replica = chosen(order.rng, stage.site.service)
        replica.kill()
        return Damage(f"killed {told(replica)}", replica.launch)


class PauseReplica(Fault):
    """A replica stands still. What lies in its buffers is carried out when it goes on."""

    kind = "pause-replica"

    def begin(self, stage: Stage, order: Order) -> Damage:
        """Pause one."""
        replica = chosen(order.rng, stage.site.service)
        replica.pause()

        def undo() -> None:
            # Another fault may have killed it meanwhile.
            with contextlib.suppress(ServerError, ProcessLookupError):
                replica.resume()

        return Damage(f"paused {told(replica)}", undo)


class CutReplica(Fault):
    """A replica is cut off: from everybody, from its engine, or one way."""

    kind = "cut-replica"
    ways: ClassVar[tuple[str, ...]] = ("", "from the engine", "from what comes in")

    def begin(self, stage: Stage, order: Order) -> Damage:
        """Cut one off."""
        replica = chosen(order.rng, stage.site.service)
        way = self.ways[order.turn % len(self.ways)]
        host = host_of(replica)
        if way == "from the engine":
            undo = host.cut(*stage.site.addresses)
        else:
            undo = host.cut(outgoing=not way)
        return Damage(f"cut {told(replica)} off {way}".rstrip(), undo)


class DrainReplica(Fault):
    """A replica gets SIGTERM, sends its clients away and ends. It is started again later."""

    kind = "drain-replica"

    def begin(self, stage: Stage, order: Order) -> Damage:
        """Drain one."""
        # One that is only starting would be killed by the signal.
        replica = chosen(order.rng, [each for each in stage.site.service if listens(each)])
        assert isinstance(replica, Replica)
        replica.drain()

        def undo() -> None:
            replica.drained(ENDED)
            replica.launch()

        return Damage(f"drained {told(replica)}", undo)
