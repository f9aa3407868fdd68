"""A primary that becomes a replica and keeps the connections of its clients."""

import contextlib
import time
from typing import ClassVar

from tests.robustness.faults.fault import Damage, Fault, Order, Stage, told
from tests.robustness.sites import ClusterSite
from tests.servers.process import ServerError, wait_until
from tests.servers.resp import ReplyError

_PATIENCE, _AGAIN = 12.0, 2.0  # seconds


class DemotedPrimary(Fault):
    """An operator moves the primary while all servers run: nobody is disconnected."""

    kind = "demoted-primary"
    breaks: ClassVar[frozenset[str]] = frozenset({"data"})

    def begin(self, stage: Stage, order: Order) -> Damage:
        """Do it, and wait until another is the primary; there is nothing to undo."""
        del order
        site = stage.site
        if not isinstance(site, ClusterSite):
            raise ServerError(f"{site.name} has no manual failover")
        site.wait_served()
        primary = site.leader()
        end = time.monotonic() + _PATIENCE
        while site.leader() is primary:
            if time.monotonic() > end:
                raise ServerError("the primary stayed the primary")
            _ask(site)  # again and again: soon after another failover it is refused, or given up
            with contextlib.suppress(ServerError):
                wait_until(lambda: site.leader() is not primary, "another is the primary", _AGAIN)
        return Damage(f"demoted {told(primary)}", lambda: None)


def _ask(site: ClusterSite) -> None:
    with contextlib.suppress(ReplyError, IndexError, OSError):
        site.replicas()[0].command("CLUSTER", "FAILOVER")
