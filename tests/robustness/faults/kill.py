"""Crashes: kill -9, and the process comes back with what it had stored, or with nothing."""

from typing import ClassVar

from tests.robustness.faults.fault import Damage, Fault, Order, Stage, chosen, told

_PATIENCE = 60.0


class KillClient(Fault):
    """A client crashes; another of the same name comes later."""

    kind = "kill-client"

    def begin(self, stage: Stage, order: Order) -> Damage:
        """Kill one."""
        worker = chosen(order.rng, stage.workers)
        worker.kill()
        # It waits for nothing: the servers may be unreachable just then.
        return Damage(f"killed {told(worker)}", worker.launch)


class KillServer(Fault):
    """A server crashes and comes back with what it had stored."""

    kind = "kill-server"

    def begin(self, stage: Stage, order: Order) -> Damage:
        """Kill the leader on every other turn, else anyone."""
        site = stage.site
        site.wait_sound()
        leader = order.turn % 2 == 0
        server = chosen(order.rng, [site.leader()] if leader else site.servers)
        server.kill()
        return Damage(f"killed {told(server)}", lambda: site.revive(server))


class RestartEmpty(Fault):
    """A server crashes and comes back with nothing."""

    kind = "restart-empty"
    breaks: ClassVar[frozenset[str]] = frozenset({"data"})

    def begin(self, stage: Stage, order: Order) -> Damage:
        """Kill one, and remove its data."""
        site = stage.site
        site.wait_sound()
        server = chosen(order.rng, site.servers)
        server.kill()
        site.wipe(server)

        def undo() -> None:
            server.start(_PATIENCE)

        return Damage(f"emptied {told(server)}", undo)
