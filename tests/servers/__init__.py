"""Real servers for the tests and the benchmarks, and real faults."""

from tests.servers.clock import ServerClock
from tests.servers.cluster import Cluster, SlotMove
from tests.servers.etcd import Etcd, EtcdCluster
from tests.servers.http import Asgi, HttpServer, Wsgi
from tests.servers.mariadb import MariaDB
from tests.servers.postgres import PgBouncer, Postgres
from tests.servers.process import Server, ServerError, free_port, is_running, wait_until
from tests.servers.program import Program
from tests.servers.proxy import Proxy
from tests.servers.redis import Redis
from tests.servers.redlock import RedlockSet
from tests.servers.replica import Replica
from tests.servers.resp import Connection, Reply, ReplyError
from tests.servers.s3 import ObjectStore
from tests.servers.sentinel import Sentinel, SentinelSet
from tests.servers.zookeeper import ZooKeeper, ZooKeeperEnsemble

__all__ = [
    "Asgi",
    "Cluster",
    "Connection",
    "Etcd",
    "EtcdCluster",
    "HttpServer",
    "MariaDB",
    "ObjectStore",
    "PgBouncer",
    "Postgres",
    "Program",
    "Proxy",
    "Redis",
    "RedlockSet",
    "Replica",
    "Reply",
    "ReplyError",
    "Sentinel",
    "SentinelSet",
    "Server",
    "ServerClock",
    "ServerError",
    "SlotMove",
    "Wsgi",
    "ZooKeeper",
    "ZooKeeperEnsemble",
    "free_port",
    "is_running",
    "wait_until",
]
