"""Three ZooKeeper servers."""

import contextlib
from typing import ClassVar

from tests.robustness.sites.ledger import Ledger
from tests.robustness.sites.site import COMMON, PROXIED, Lapse, Site
from tests.servers.clock import ServerClock
from tests.servers.process import Server
from tests.servers.zookeeper import ZooKeeper, ZooKeeperEnsemble

_SERVERS = 3


class ZooKeeperSite(Site):
    """An ensemble that syncs what it acknowledges."""

    name = "zookeeper"
    engine = "zookeeper"
    kinds: ClassVar[tuple[str, ...]] = (
        *COMMON,
        *PROXIED,
        "cut-minority",
        "slow-fsync",
        "clock-server",
    )

    @property
    def url(self) -> str:
        """The addresses of the proxies."""
        return f"zookeeper://{','.join(proxy.address for proxy in self.proxies)}"

    def version(self) -> str:
        """Ask one of the servers."""
        first = self.ensemble.servers[0].command("srvr").splitlines()[0]
        return f"ZooKeeper {first.partition(': ')[2].partition('-')[0]}"

    def leader(self) -> ZooKeeper:
        """Tell who leads, if anybody does."""
        return self.ensemble.leader()

    def leads(self, server: Server) -> bool:
        """Ask it."""
        return isinstance(server, ZooKeeper) and server.mode() == "leader"

    def serves(self) -> bool:
        """Tell whether each follows or leads."""
        modes = sorted(server.mode() for server in self.ensemble.servers)
        return modes == ["follower", "follower", "leader"]

    def lapse(self) -> Lapse | None:
        """Tell what the ledger lost: a server before 3.9.4 that is cut off while it catches up may
        lead without what it was told (ZOOKEEPER-4643, ZOOKEEPER-4646 and others).
        """
        since = self.ledger.since()
        if since is None:
            return None
        lost, told = len(self.ledger.lost), len(self.ledger.told)
        return Lapse(since, f"ZooKeeper lost {lost} of {told} writes that it had acknowledged")

    def close(self) -> None:
        """End the ledger too."""
        with contextlib.ExitStack() as stack:
            stack.callback(super().close)
            stack.callback(self.ledger.close)

    def _build(self) -> None:
        self.ensemble = ZooKeeperEnsemble(
            _SERVERS,
            properties={"zookeeper.forceSync": "yes"},
            envs=[ServerClock().env for _ in range(_SERVERS)],
            homes=[self.network.host() for _ in range(_SERVERS)],
        )
        self.servers += self.ensemble.servers
        self.ledger = Ledger([server.address for server in self.ensemble.servers])
        self.ensemble.start()
        servers = self.ensemble.servers
        self._front(servers, [server.port for server in servers])
        self.ledger.start()
