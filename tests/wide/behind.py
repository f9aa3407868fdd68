"""Engines behind replicas of the service that keep the locks of a client that moves."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from lockfast.engines import mysql, postgres
from tests.servers import EtcdCluster, MariaDB, Postgres, Redis, RedlockSet

ENGINES = ("redis", "postgres", "etcd", "mysql", "redlock")


@contextlib.contextmanager
def engine(name: str) -> Iterator[str]:
    """Start one, ready for clients, and give its URL."""
    if name == "redis":
        with Redis() as redis:
            yield redis.url
    elif name == "redlock":
        with RedlockSet(3) as several:
            yield several.url
    elif name == "etcd":
        with EtcdCluster() as cluster:
            yield cluster.url
    elif name == "postgres":
        with Postgres(config={"fsync": "off"}) as server:
            postgres.install(server.url)
            yield server.url
    else:
        with MariaDB(config={"innodb-flush-log-at-trx-commit": "0"}) as maria:
            mysql.install(maria.url)
            yield maria.url
