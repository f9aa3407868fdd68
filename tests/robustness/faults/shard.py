"""A shard of a Redis Cluster that is gone: its primary, and the replica that would follow it."""

import contextlib
from collections.abc import Callable

from tests.robustness.faults.fault import Damage, Fault, Order, Stage, told
from tests.robustness.sites import ClusterSite
from tests.servers.process import ServerError

_PATIENCE = 60.0


class ShardDown(Fault):
    """One shard stands still or is dead. Names of the others go on while the cluster serves."""

    kind = "shard-down"

    def begin(self, stage: Stage, order: Order) -> Damage:
        """Pause it on every other turn, else kill it."""
        site = stage.site
        if not isinstance(site, ClusterSite):
            raise ServerError(f"{site.name} has no shards")
        site.wait_served()
        shard = [site.leader(), *site.replicas()]
        pause = order.turn % 2 == 0
        undo: list[Callable[[], object]] = []
        for node in shard:
            if pause:
                node.pause()
                undo.append(node.resume)
            else:
                node.kill()
                undo.append(lambda node=node: node.start(_PATIENCE))  # type: ignore[misc]  # of the loop

        def undone() -> None:
            for step in undo:
                with contextlib.suppress(ProcessLookupError):
                    step()

        return Damage(f"{'paused' if pause else 'killed'} the shard of {told(shard[0])}", undone)
