"""Three ZooKeeper servers."""

from tests.robustness.sites.site import COMMON, PROXIED, Site
from tests.servers.clock import ServerClock
from tests.servers.zookeeper import ZooKeeper, ZooKeeperEnsemble

_SERVERS = 3


class ZooKeeperSite(Site):
    """An ensemble that syncs what it acknowledges."""

    name = "zookeeper"
    engine = "zookeeper"
    kinds = (*COMMON, *PROXIED, "cut-minority", "slow-fsync", "clock-server")

    @property
    def url(self) -> str:
        """The addresses of the proxies."""
        return f"zookeeper://{','.join(proxy.address for proxy in self.proxies)}"

    def leader(self) -> ZooKeeper:
        """Tell who leads, if anybody does."""
        return self.ensemble.leader()

    def serves(self) -> bool:
        """Tell whether each follows or leads."""
        modes = sorted(server.mode() for server in self.ensemble.servers)
        return modes == ["follower", "follower", "leader"]

    def _build(self) -> None:
        self.ensemble = ZooKeeperEnsemble(
            _SERVERS,
            properties={"zookeeper.forceSync": "yes"},
            envs=[ServerClock().env for _ in range(_SERVERS)],
            homes=[self.network.host() for _ in range(_SERVERS)],
        )
        self.servers += self.ensemble.servers
        self.ensemble.start()
        servers = self.ensemble.servers
        self._front(servers, [server.port for server in servers])
