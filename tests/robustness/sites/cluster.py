"""A Redis Cluster: three primaries, and for each a replica that follows it when it is gone."""

import contextlib
from typing import ClassVar

from lockfast.engines.redis.keys import slot
from tests.robustness.sites.redis import named
from tests.robustness.sites.site import COMMON, Site
from tests.servers.cluster import Cluster
from tests.servers.process import Server, ServerError, wait_until
from tests.servers.redis import Redis
from tests.servers.resp import ReplyError

_PRIMARIES = 3
_HEARD = slot(0)  # a client listens where this is
_BRIEF = 0.5
_BY_ITSELF = 15.0
_PATIENCE = 60.0


class ClusterSite(Site):
    """Clients go to the nodes directly, where the nodes send them: there is no proxy.

    Replication is asynchronous, as with Sentinel: see there what it may lose, and why no clock is
    moved.
    """

    name = "redis-cluster"
    engine = "redis"
    kinds = (
        *COMMON,
        "cut-minority",
        "stale-failover",
        "move-slot",
        "shard-down",
        "demoted-primary",
    )
    loses: ClassVar[frozenset[str]] = frozenset(
        {
            *("pause-server", "kill-server", "cut-leader", "cut-one-way", "cut-minority", "loss"),
            "shard-down",
        }
    )

    @property
    def url(self) -> str:
        """The addresses of all nodes."""
        return self.cluster.url

    def version(self) -> str:
        """Ask one of the nodes."""
        return named(self.cluster.nodes[0])

    def leader(self) -> Redis:
        """Tell the primary to which every client listens."""
        for node in self.cluster.nodes:
            with contextlib.suppress(OSError, ReplyError):  # it is paused, or just coming up
                if node.alive and self.cluster.owns(node, _HEARD, _BRIEF):
                    return node
        raise ServerError(f"nobody says that slot {_HEARD} is its own")

    def replicas(self) -> list[Redis]:
        """Tell the nodes that run and follow the leader."""
        leader = self.leader()
        return [
            node
            for node in self.cluster.nodes
            if node.alive and node.info("replication").get("master_host") == leader.host
        ]

    def wait_in_step(self) -> None:
        """Wait until the leader's replicas have what it has written so far."""
        for replica in self.replicas():
            replica.wait_in_step(self.leader(), _PATIENCE)

    def serves(self) -> bool:
        """Tell whether all nodes run, find the cluster complete and agree on it."""
        nodes = self.cluster.nodes
        return all(node.alive and self.cluster.in_order(node) for node in nodes)

    def fail_over(self, dead: Server) -> None:
        """Wait until another has the dead one's slots, and all that run find that in order."""
        wait_until(lambda: self._is_followed(dead), f"another follows {dead.name}", _PATIENCE)

    def follow(self, dead: Server) -> None:
        """Start the dead one, which the others make a replica."""
        dead.start(_PATIENCE)
        self.wait_served()

    def wait_served(self) -> None:
        """Wait until clients are served, and repair the cluster if it does not recover by itself.

        The target of a move that was interrupted keeps the slot's old owner until the move ends,
        also when another node has taken that owner's slots. From then on it finds the cluster
        incomplete, and refuses its own slots too, until an operator runs `redis-cli --cluster fix`.
        """
        try:
            wait_until(self._served, f"{self.name} serves", _BY_ITSELF)
        except ServerError:
            self.cluster.fix()
            super().wait_served()

    def repair(self) -> None:
        """End the moves of slots that were interrupted half-way."""
        self.wait_served()
        self.cluster.fix()

    def _is_followed(self, dead: Server) -> bool:
        try:
            self.cluster.wait_ok(1.0)
            return self.leader() is not dead
        except (OSError, ServerError):
            return False

    def _build(self) -> None:
        hosts = [self.network.host() for _ in range(2 * _PRIMARIES)]
        self.cluster = Cluster(replicas=1, homes=hosts)
        self.servers += self.cluster.nodes
        self.cluster.start()
