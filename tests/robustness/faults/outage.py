"""An outage: all servers crash at once."""

from tests.robustness.faults.fault import Damage, Fault, Order, Stage
from tests.robustness.sites import GaleraSite
from tests.servers.process import ServerError


class KillAll(Fault):
    """All nodes of a cluster crash, and an operator starts it from the most advanced of them."""

    kind = "kill-all"

    def begin(self, stage: Stage, order: Order) -> Damage:
        """Kill all."""
        del order
        site = stage.site
        if not isinstance(site, GaleraSite):
            raise ServerError(f"{site.name} needs nobody to start it anew")
        site.wait_sound()
        for server in site.servers:
            server.kill()
        return Damage("killed all nodes", site.cluster.bootstrap)
