"""A rolling restart of the lock service: one replica after the other gets another version."""

from tests.robustness.faults.fault import Damage, Fault, Order, Stage
from tests.robustness.faults.replica import ENDED, listens
from tests.robustness.sites import ServiceSite
from tests.servers.process import ServerError

_STARTED = 30.0  # seconds


class RollingRestart(Fault):
    """Each replica is drained and started again, when the one before it serves."""

    kind = "rolling-restart"

    def begin(self, stage: Stage, order: Order) -> Damage:
        """Do it all; there is nothing to undo."""
        del order
        site = stage.site
        if not isinstance(site, ServiceSite):
            raise ServerError(f"{site.name} has no replicas")
        for replica in site.service:
            if not listens(replica):
                raise ServerError(f"{replica.address} does not accept connections")
        for replica in site.service:
            replica.drain()
            replica.drained(ENDED)
            site.change_version(replica)
            # It only has to listen: another fault may keep the engine from answering.
            replica.start(_STARTED)
        return Damage("restarted all replicas, one after the other", lambda: None)
