"""Three replicas of the lock service in front of an engine's servers, on hosts of their own."""

from typing import ClassVar, Self

from lockfast.service.keys import new_key
from tests.previous.version import ROOT
from tests.robustness.sites.etcd import EtcdSite
from tests.robustness.sites.mysql import MySQLSite
from tests.robustness.sites.postgres import PostgresSite
from tests.robustness.sites.redis import RedisSite
from tests.robustness.sites.redlock import RedlockSite
from tests.robustness.sites.site import Site
from tests.robustness.sites.zookeeper import ZooKeeperSite
from tests.servers.replica import Replica

_REPLICAS = 3
_PATIENCE = 60.0
REPLICAS = ("kill-replica", "pause-replica", "cut-replica", "drain-replica", "rolling-restart")


class ServiceSite(Site):
    """What stands before an engine's site: clients connect to the replicas, and these connect by
    way of the proxies. If another version is given, the second replica begins with it, and each
    rolling restart changes the version of every replica.
    """

    engine = "service"
    moves: ClassVar[bool] = True
    """Whether clients keep their leases when they move to another replica."""

    def __init__(self) -> None:
        """Make an API key for the clients."""
        super().__init__()
        self._key = new_key()

    @property
    def entry(self) -> str:
        """The addresses of the replicas."""
        return f"lockfast://:{self._key}@{','.join(each.address for each in self.service)}"

    @property
    def entries(self) -> list[str]:
        """The URL of each replica alone."""
        return [f"lockfast://:{self._key}@{replica.address}" for replica in self.service]

    @property
    def entrances(self) -> list[str]:
        """Where a client finds the replicas."""
        return [replica.host for replica in self.service]

    def serves(self) -> bool:
        """Tell whether the engine serves, and answers each replica."""
        return super().serves() and all(replica.serves() for replica in self.service)  # type: ignore[safe-super]

    def start(self) -> Self:
        """Start the engine, then the replicas."""
        super().start()
        for number in range(_REPLICAS):
            replica = Replica(self.url, home=self.network.host(), key=self._key)
            self.service.append(replica)
            if number == 1:
                self.change_version(replica)
            replica.start(_PATIENCE)
        self.wait_served()
        return self

    def change_version(self, replica: Replica) -> None:
        """Let a replica run the other version from its next start on, if there is one."""
        if self.previous is not None:
            other = self.previous.unpacked()
            replica.run_from(ROOT if replica.root == other else other)

    def heal(self) -> None:
        """Let all replicas run, and undo whatever was done to the rest."""
        for replica in self.service:
            if replica.alive:
                replica.resume()
            replica.launch()
        super().heal()

    def close(self) -> None:
        """End the replicas, then the engine."""
        for replica in self.service:
            replica.kill()
            replica.close()
        super().close()


class ServiceRedisSite(ServiceSite, RedisSite):
    """In front of one Redis that keeps nothing."""

    name = "service-redis"
    engine = "service"
    kinds: ClassVar[tuple[str, ...]] = (*RedisSite.kinds, *REPLICAS)


class ServicePostgresSite(ServiceSite, PostgresSite):
    """In front of PostgreSQL with a replica of its own."""

    name = "service-postgres"
    engine = "service"
    kinds: ClassVar[tuple[str, ...]] = (*PostgresSite.kinds, *REPLICAS)


class ServiceEtcdSite(ServiceSite, EtcdSite):
    """In front of three etcd members."""

    name = "service-etcd"
    engine = "service"
    kinds: ClassVar[tuple[str, ...]] = (*EtcdSite.kinds, *REPLICAS)


class ServiceMySQLSite(ServiceSite, MySQLSite):
    """In front of MariaDB with a replica of its own."""

    name = "service-mysql"
    engine = "service"
    kinds: ClassVar[tuple[str, ...]] = (*MySQLSite.kinds, *REPLICAS)


class ServiceZooKeeperSite(ServiceSite, ZooKeeperSite):
    """In front of three ZooKeeper servers: leases end with the replica that acquired them."""

    name = "service-zookeeper"
    engine = "service"
    kinds: ClassVar[tuple[str, ...]] = (*ZooKeeperSite.kinds, *REPLICAS)
    moves = False


class ServiceRedlockSite(ServiceSite, RedlockSite):
    """In front of five Redis that know nothing of each other."""

    name = "service-redlock"
    engine = "service"
    kinds: ClassVar[tuple[str, ...]] = (*RedlockSite.kinds, *REPLICAS)
