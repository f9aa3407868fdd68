"""Three MariaDB servers that are one Galera cluster."""

import contextlib

import pymysql

from lockfast.engines.mysql import install
from tests.robustness.sites.site import COMMON, PROXIED, Site
from tests.servers.clock import ServerClock
from tests.servers.galera import Galera, GaleraNode
from tests.servers.process import Server, ServerError

_NODES = 3
_BY_ITSELF = 30.0


class GaleraSite(Site):
    """Every node takes writes. All clients begin at the first, and go to another if it fails."""

    name = "galera"
    engine = "mysql"
    kinds = (*COMMON, *PROXIED, "cut-minority", "slow-fsync", "deposed-leader", "kill-all")

    @property
    def url(self) -> str:
        """The addresses of the proxies."""
        places = ",".join(proxy.address for proxy in self.proxies)
        node = self.cluster.nodes[0]
        return node.url.replace(f"{node.host}:{node.port}", places)

    def version(self) -> str:
        """Ask a node."""
        return f"MariaDB {self.cluster.nodes[0].version()} with Galera"

    def leader(self) -> GaleraNode:
        """Tell the writer: the node that most connections lead to."""
        nodes = [node for node in self.cluster.nodes if node.alive]
        if not nodes:
            raise ServerError("no node runs")
        return max(nodes, key=lambda node: self.front(node).open_connections)

    def leads(self, server: Server) -> bool:
        """Tell whether it is in a majority that has gone on without somebody."""
        try:
            said = server.state() if isinstance(server, GaleraNode) else {}
        except pymysql.MySQLError:
            return False
        return (said["wsrep_cluster_status"], said["wsrep_cluster_size"]) == ("Primary", "2")

    def prepare(self) -> None:
        """Install the schema."""
        install(self.url)

    def wait_sound(self) -> None:
        """Wait until all are there, because two that are lost one after the other need an
        operator. That comes when faults are in pairs.
        """
        self.cluster.wait_whole()

    def serves(self) -> bool:
        """Tell whether all are ready, and each sees all."""
        return self.cluster.whole()

    def revive(self, server: Server) -> None:
        """Start a node, and do what an operator does if there is no majority that it can join."""
        server.launch()
        self.wait_served()

    def wait_served(self) -> None:
        """Wait until clients are served, and do what an operator does if that does not come."""
        try:
            self.cluster.wait_whole(_BY_ITSELF)
        except ServerError:
            self.cluster.bootstrap()

    def heal(self) -> None:
        """Undo whatever was done to it, and wait until it serves."""
        self.network.heal()
        for proxy in self.proxies:
            proxy.release_requests()
            proxy.heal()
        for node in self.cluster.nodes:
            with contextlib.suppress(ProcessLookupError):
                if node.alive:
                    node.resume()
            node.launch()
        self.wait_served()

    def _build(self) -> None:
        hosts = [self.network.host() for _ in range(_NODES)]
        self.cluster = Galera(hosts, [ServerClock().env for _ in hosts])
        self.servers += self.cluster.nodes
        self.cluster.start()
        self._front(self.servers, [node.port for node in self.cluster.nodes])
