"""A site: the servers of one engine on hosts of their own, proxies before them, and the network."""

import contextlib
import tempfile
from abc import abstractmethod
from collections.abc import Sequence
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import ClassVar, NamedTuple, Self

from tests.previous.version import Version
from tests.robustness.hosts import Host, Network, host_of
from tests.servers.certificates import Certificates
from tests.servers.group import Group
from tests.servers.guard import guard
from tests.servers.process import Server, wait_until
from tests.servers.proxy import Proxy
from tests.servers.replica import Replica

# What every site supports.
COMMON = (
    "pause-client",
    "pause-server",
    "kill-client",
    "kill-server",
    "cut-leader",
    "cut-client",
    "cut-one-way",
    "loss",
    "clock-client",
    "nat-forgets",
    "idle-died",
    "signal-storm",
)
# What takes a proxy between the clients and the servers.
PROXIED = ("lose-reply", "delay", "late-request")
# What clients log in with where they use TLS.
USER, PASSWORD = "app", "tests"
_PATIENCE = 60.0


class Access(StrEnum):
    """How clients come to the servers."""

    PLAIN = "plain"
    TLS = "tls"
    """With a password too, where the engine asks for one."""
    POOLED = "pgbouncer"
    """By way of a PgBouncer in transaction mode beside each PostgreSQL."""


class Lapse(NamedTuple):
    """What an engine lost by itself: since when nothing can be built on it, and what that was."""

    since: float
    said: str


class Site(Group):
    """One engine's servers. `with` starts them and makes them ready for clients.

    Clients run on hosts of the network too, and go by way of proxies that listen on the bridge's
    address, in the harness's own namespace.
    """

    name: ClassVar[str]
    engine: ClassVar[str]
    kinds: ClassVar[tuple[str, ...]]
    """The kinds of faults that it supports."""
    loses: ClassVar[frozenset[str]] = frozenset()
    """The kinds through which this site may lose what it has acknowledged."""

    def __init__(self) -> None:
        """Claim a network."""
        self.access = Access.PLAIN
        self.aftermath: dict[str, float] = {}
        """For how many seconds after such a fault it may still lose what it has acknowledged."""
        self.previous: Version | None = None
        """Another version of lockfast that runs beside this one, where the site runs lockfast."""
        self.network = Network()
        self.servers: list[Server] = []
        self.service: list[Replica] = []
        """The replicas of the lock service in front of the servers. Most sites have none."""
        self.proxies: list[Proxy] = []
        self._clients: dict[int, Host] = {}

    @property
    @abstractmethod
    def url(self) -> str:
        """The URL of the engine."""

    @property
    def entry(self) -> str:
        """The URL that clients connect to."""
        return self.url

    @cached_property
    def certificates(self) -> Certificates | None:
        """What the servers show to clients that use TLS, who know them by the proxies' address."""
        if self.access is not Access.TLS:
            return None
        folder = Path(tempfile.mkdtemp(prefix="certificates-", dir=guard().folder))
        folder.chmod(0o755)  # a server that runs as a user of its own reads them too
        return Certificates(folder, self.network.addresses)

    @abstractmethod
    def version(self) -> str:
        """Tell what the servers say that they are."""

    @abstractmethod
    def leader(self) -> Server:
        """Tell the server whose loss hurts most: the leader, the primary, or any."""

    @abstractmethod
    def _build(self) -> None:
        """Make the servers, each on a host of its own, and start them."""

    @abstractmethod
    def serves(self) -> bool:
        """Tell whether clients are served; an OSError says no."""

    def prepare(self) -> None:
        """Make it ready for clients: a schema, members. Most need nothing."""

    def wait_sound(self) -> None:
        """Wait until it can bear that a server is killed. Most can at any time."""

    def lapse(self) -> Lapse | None:
        """Tell, at the end, whether it lost what it had acknowledged, though no fault that was made
        explains it. Most are not asked.
        """
        return None

    def revive(self, server: Server) -> None:
        """Start a server that was killed."""
        server.start(_PATIENCE)

    def wipe(self, server: Server) -> None:
        """Remove what a server that does not run has stored."""
        raise NotImplementedError(f"{self.name} does not lose the data of {server.name}")

    def followers(self) -> list[Server]:
        """Tell those that run and do not lead."""
        leader = self.leader()
        return [each for each in self.servers if each.alive and each is not leader]

    def leads(self, server: Server) -> bool:
        """Tell whether a server leads, as it sees it."""
        raise NotImplementedError(f"nobody is elected at {self.name}: {server.name}")

    def front(self, server: Server) -> Proxy:
        """Tell the proxy before a server."""
        return self.proxies[self.servers.index(server)]

    def peers(self, server: Server) -> list[Server]:
        """Tell the servers that one talks with."""
        return [each for each in self.servers if each is not server]

    def client_host(self, place: int) -> Host:
        """Tell the host of a client, which is made when first asked for."""
        if place not in self._clients:
            self._clients[place] = self.network.host()
        return self._clients[place]

    @property
    def addresses(self) -> list[str]:
        """Where a client of the engine finds it: the proxies, and the servers themselves."""
        return [self.network.address, *(host_of(server).address for server in self.servers)]

    @property
    def entrances(self) -> list[str]:
        """Where a client finds the site."""
        return self.addresses

    def start(self) -> Self:
        """Make the hosts, start the servers, and wait until they serve."""
        self.network.start()
        self._build()
        self.wait_served()
        self.prepare()
        return self

    def heal(self) -> None:
        """Undo whatever was done to it, and wait until it serves."""
        self.network.heal()
        for proxy in self.proxies:
            proxy.release_requests()
            proxy.heal()
        for server in self.servers:
            if server.alive:
                server.resume()
            server.launch()
        for server in self.servers:
            server.start(_PATIENCE)
        self.wait_served()

    def wait_served(self) -> None:
        """Wait until clients are served."""
        wait_until(self._served, f"{self.name} serves", _PATIENCE)

    def close(self) -> None:
        """End the servers and the proxies, and remove the hosts."""
        with contextlib.ExitStack() as stack:
            stack.callback(self.network.close)
            for proxy in self.proxies:
                stack.callback(proxy.close)
            for server in self.servers:
                stack.callback(server.close)
                stack.callback(server.kill)

    def _served(self) -> bool:
        try:
            return self.serves()
        except OSError:
            return False

    def _front(self, servers: Sequence[Server], ports: Sequence[int]) -> None:
        """Put a proxy before each server."""
        for server, port in zip(servers, ports, strict=True):
            proxy = Proxy(host_of(server).address, port, bind=self.network.address)
            self.proxies.append(proxy)
            proxy.start()
