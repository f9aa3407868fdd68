"""A failover to a replica that lacks what was acknowledged last."""

import time
from typing import ClassVar

from tests.robustness.faults.fault import Damage, Fault, Order, Stage, told
from tests.robustness.hosts import host_of
from tests.robustness.sites import ClusterSite, MySQLSite, PostgresSite, SentinelSite
from tests.servers.process import ServerError

_PATIENCE = 60.0


class StaleFailover(Fault):
    """The replicas are cut off, the primary acknowledges more, and dies; a replica follows it."""

    kind = "stale-failover"
    breaks: ClassVar[frozenset[str]] = frozenset({"data"})

    def begin(self, stage: Stage, order: Order) -> Damage:
        """Do it; the dead primary comes back as a replica when this is undone."""
        site = stage.site
        if not isinstance(site, ClusterSite | MySQLSite | PostgresSite | SentinelSite):
            raise ServerError(f"{site.name} has no failover")
        primary = site.leader()
        heal = [host_of(replica).cut(host_of(primary)) for replica in site.replicas()]
        time.sleep(min(order.seconds, stage.ttl))
        # Its host too, else the kernel goes on to send what the dead process had written.
        home = host_of(primary).cut()
        primary.kill()
        for each in heal:
            each()
        try:
            site.fail_over(primary)
        except BaseException:
            home()
            if site.leader() is primary:
                primary.start(_PATIENCE)
            else:  # it was done, but the clients were not led there
                site.follow(primary)
            raise

        def undo() -> None:
            home()
            site.follow(primary)

        return Damage(f"{told(primary)} died before its replicas had heard all", undo)
