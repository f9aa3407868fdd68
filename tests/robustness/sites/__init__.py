"""Sites: the servers of each engine, every one on a host of its own."""

from tests.robustness.sites.cluster import ClusterSite
from tests.robustness.sites.etcd import EtcdSite
from tests.robustness.sites.galera import GaleraSite
from tests.robustness.sites.mysql import MySQLSite
from tests.robustness.sites.postgres import PostgresSite
from tests.robustness.sites.redis import RedisSite, SavingRedisSite
from tests.robustness.sites.redlock import RedlockSite
from tests.robustness.sites.sentinel import SentinelSite
from tests.robustness.sites.service import (
    ServiceEtcdSite,
    ServiceMySQLSite,
    ServicePostgresSite,
    ServiceRedisSite,
    ServiceRedlockSite,
    ServiceSite,
    ServiceZooKeeperSite,
)
from tests.robustness.sites.site import Site
from tests.robustness.sites.zookeeper import ZooKeeperSite

SITES: dict[str, type[Site]] = {
    "redis": RedisSite,
    "redis-aof": SavingRedisSite,
    "redis-sentinel": SentinelSite,
    "redis-cluster": ClusterSite,
    "redlock": RedlockSite,
    "etcd": EtcdSite,
    "zookeeper": ZooKeeperSite,
    "postgres": PostgresSite,
    "mysql": MySQLSite,
    "galera": GaleraSite,
    "service-redis": ServiceRedisSite,
    "service-postgres": ServicePostgresSite,
    "service-etcd": ServiceEtcdSite,
    "service-mysql": ServiceMySQLSite,
    "service-zookeeper": ServiceZooKeeperSite,
    "service-redlock": ServiceRedlockSite,
}

__all__ = [
    "SITES",
    "ClusterSite",
    "EtcdSite",
    "GaleraSite",
    "MySQLSite",
    "PostgresSite",
    "RedisSite",
    "RedlockSite",
    "SavingRedisSite",
    "SentinelSite",
    "ServiceSite",
    "Site",
    "ZooKeeperSite",
]
