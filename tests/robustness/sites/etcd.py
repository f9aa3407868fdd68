"""Three etcd members."""

import http.client
from typing import ClassVar

from tests.robustness.sites.site import COMMON, PASSWORD, PROXIED, Site
from tests.servers.etcd import Etcd, EtcdCluster
from tests.servers.process import Server, ServerError

_MEMBERS = 3
# A leader that stood still or was cut off revokes, when it is back, leases that its successor has
# kept alive: etcd before 3.4.31 and 3.5.13. With 3.4.23 it did in 14 of 22 rounds, within 0.2 s.
_REVOKING = ("pause-server", "cut-leader", "cut-one-way", "slow-fsync", "deposed-leader")
_AFTERMATH = 1.0


class EtcdSite(Site):
    """A cluster. Its clock cannot be moved: Go asks the kernel by itself."""

    name = "etcd"
    engine = "etcd"
    kinds: ClassVar[tuple[str, ...]] = (*COMMON, *PROXIED, "cut-minority", "slow-fsync")

    @property
    def url(self) -> str:
        """The addresses of the proxies."""
        members = ",".join(node.address for node in self.cluster.nodes)
        proxies = ",".join(proxy.address for proxy in self.proxies)
        return self.cluster.url.replace(members, proxies)

    def version(self) -> str:
        """Ask one of the members."""
        return f"etcd {self.cluster.nodes[0].version()}"

    def leader(self) -> Etcd:
        """Tell who leads, if anybody does."""
        return self.cluster.leader(5.0)

    def leads(self, server: Server) -> bool:
        """Ask it."""
        return isinstance(server, Etcd) and server.leads()

    def serves(self) -> bool:
        """Tell whether all know a leader, and a write goes through."""
        try:
            for node in self.cluster.nodes:
                node.post("kv/put", 1.0, key="c2l0ZQ==", value="")
        except (ServerError, http.client.HTTPException):
            return False
        return True

    def _build(self) -> None:
        hosts = [self.network.host() for _ in range(_MEMBERS)]
        files = self.certificates
        self.cluster = EtcdCluster(
            _MEMBERS,
            tls=files or False,
            password=PASSWORD if files else None,
            # Each look at a member logs in, which costs a tenth of a second of a core by default.
            options=("--bcrypt-cost", "4") if files else (),
            homes=hosts,
        )
        self.servers += self.cluster.nodes
        self.cluster.start()
        if _revokes(self.cluster.nodes[0].version()):
            self.aftermath = dict.fromkeys(_REVOKING, _AFTERMATH)
        nodes = self.cluster.nodes
        self._front(nodes, [node.port for node in nodes])


def _revokes(version: str) -> bool:
    major, minor, patch = map(int, version.partition("-")[0].split("."))
    return (major, minor, patch) < (3, 5, 13) and not (minor == 4 and patch >= 31)
