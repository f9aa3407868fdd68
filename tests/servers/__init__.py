"""Real servers for the tests and the benchmarks, and real faults."""

from tests.servers.clock import ServerClock
from tests.servers.cluster import Cluster, SlotMove
from tests.servers.etcd import Etcd, EtcdCluster
from tests.servers.postgres import PgBouncer, Postgres
from tests.servers.process import Server, ServerError, free_port, wait_until
from tests.servers.proxy import Proxy
from tests.servers.redis import Redis
from tests.servers.resp import Connection, Reply, ReplyError
from tests.servers.sentinel import Sentinel, SentinelSet

__all__ = [
    "Cluster",
    "Connection",
    "Etcd",
    "EtcdCluster",
    "PgBouncer",
    "Postgres",
    "Proxy",
    "Redis",
    "Reply",
    "ReplyError",
    "Sentinel",
    "SentinelSet",
    "Server",
    "ServerClock",
    "ServerError",
    "SlotMove",
    "free_port",
    "wait_until",
]
