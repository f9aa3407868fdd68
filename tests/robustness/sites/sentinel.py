"""Redis with two replicas, and three Sentinels that promote one when the primary is gone."""

from typing import ClassVar

from tests.robustness.sites.redis import named
from tests.robustness.sites.site import COMMON, Site
from tests.servers.process import Server, ServerError
from tests.servers.redis import Redis
from tests.servers.resp import ReplyError
from tests.servers.sentinel import SentinelSet

_REPLICAS = 2
_SENTINELS = 3
_PATIENCE = 60.0


class SentinelSite(Site):
    """Clients go to the servers directly, where the Sentinels send them: there is no proxy.

    Replication is asynchronous, so whatever makes the Sentinels promote a replica may lose what
    was acknowledged. No clock is moved: on a busy machine they may promote one at any time, and
    tokens keep their order only by a clock that goes right.
    """

    name = "redis-sentinel"
    engine = "redis"
    kinds = (*COMMON, "cut-minority", "stale-failover")
    loses: ClassVar[frozenset[str]] = frozenset(
        {"pause-server", "kill-server", "cut-leader", "cut-one-way", "cut-minority", "loss"}
    )

    @property
    def url(self) -> str:
        """The address of the Sentinels."""
        return self.group.url

    def version(self) -> str:
        """Ask one of the nodes."""
        return named(self.group.nodes[0])

    def leader(self) -> Redis:
        """Tell the primary, as the Sentinels know it."""
        try:
            return self.group.primary()
        except (ReplyError, TypeError, StopIteration) as error:
            raise ServerError(f"there is no primary: {error}") from error

    def replicas(self) -> list[Redis]:
        """Tell the nodes that run and are not the primary."""
        leader = self.leader()
        return [node for node in self.group.nodes if node.alive and node is not leader]

    def wait_in_step(self) -> None:
        """Wait until the leader's replicas have what it has written so far."""
        for replica in self.replicas():
            replica.wait_in_step(self.leader(), _PATIENCE)

    def serves(self) -> bool:
        """Tell whether all Sentinels name one primary, which has its replicas."""
        named = {self.group._primary_by(each) for each in self.group.sentinels}
        if len(named) != 1:
            return False
        said = named.pop().info("replication")
        return said["role"] == "master" and int(said["connected_slaves"]) == _REPLICAS

    def fail_over(self, dead: Server) -> None:
        """Wait until another than the dead primary is named and takes writes."""
        if isinstance(dead, Redis):
            self.group.wait_failover(dead, _PATIENCE)

    def follow(self, dead: Server) -> None:
        """Start the dead primary, which the Sentinels make a replica."""
        dead.start(_PATIENCE)
        self.wait_served()

    def _build(self) -> None:
        hosts = [self.network.host() for _ in range(1 + _REPLICAS + _SENTINELS)]
        self.group = SentinelSet(replicas=_REPLICAS, homes=hosts)
        servers: list[Server] = [*self.group.nodes, *self.group.sentinels]
        self.servers += servers
        self.group.start()
