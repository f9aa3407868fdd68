"""A thousand names cost `ls` a few round trips per page, on every engine; never one per name."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import ExitStack

import pytest

import lockfast
from lockfast.engines import mysql
from lockfast.engines.postgres import install
from lockfast.port import Ask, Shape, Standing
from lockfast.runtime.drive import drive
from tests.cli.commands.calls import LONG, Calls
from tests.servers import EtcdCluster, MariaDB, Postgres, Proxy, Redis, RedlockSet, ZooKeeper

FEW = 60  # round trips, greetings included
CHUNK = 40  # claims that are made at once
SLOW = 0.3  # seconds that a reply takes


def crowd(client: lockfast.Client, names: int) -> None:
    """Let a claim hold each of so many names, and another wait for it."""
    session = client._session
    session.enter()
    prefix = secrets.token_hex(11)
    for number in range(0, 2 * names, CHUNK):
        now = session.runtime.now()
        asks = [
            Ask(f"{prefix}{n:010}", Shape(f"job {n % names}", LONG), True, now + 10, b"")  # noqa: FBT003  # as the port has it
            for n in range(number, number + CHUNK)
        ]
        found = drive(session.engine.claim_all(asks, now + 10))
        assert all(isinstance(each, Standing) for each in found), found


def on_redis(stack: ExitStack) -> tuple[str, str, int]:
    server = stack.enter_context(Redis())
    return server.url, server.address, server.port


def on_redlock(stack: ExitStack) -> tuple[str, str, int]:
    servers = stack.enter_context(RedlockSet(3))
    return servers.url, servers.nodes[0].address, servers.nodes[0].port


def on_postgres(stack: ExitStack) -> tuple[str, str, int]:
    server = stack.enter_context(Postgres())
    install(server.url)
    return server.url, f"{server.host}:{server.port}", server.port


def on_mysql(stack: ExitStack) -> tuple[str, str, int]:
    server = stack.enter_context(MariaDB())
    mysql.install(server.url)
    return server.url, f"{server.host}:{server.port}", server.port


def on_etcd(stack: ExitStack) -> tuple[str, str, int]:
    cluster = stack.enter_context(EtcdCluster(1))
    return cluster.url, cluster.nodes[0].address, cluster.nodes[0].port


def on_zookeeper(stack: ExitStack) -> tuple[str, str, int]:
    server = stack.enter_context(ZooKeeper())
    return server.url, server.address, server.port


@pytest.mark.parametrize(
    ("start", "names"),
    # Where a claim is slow, it is two hundred names: at one trip each, still far too many.
    [
        (on_redis, 1000),
        (on_redlock, 200),
        (on_postgres, 200),
        (on_mysql, 200),
        (on_etcd, 200),
        (on_zookeeper, 200),
    ],
    ids=["redis", "redlock", "postgres", "mysql", "etcd", "zookeeper"],
)
def test_a_thousand_waiting_names_cost_few_round_trips(
    start: Callable[[ExitStack], tuple[str, str, int]],
    names: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with ExitStack() as stack:
        url, address, port = start(stack)
        proxy = stack.enter_context(Proxy("127.0.0.1", port, record=True))
        proxy.delay(0.0, replies=SLOW)
        crowd(stack.enter_context(lockfast.connect(url)), names)
        said = Calls(url.replace(address, proxy.address), capsys)("ls", "--json")
        assert said.code == 0, said.err
        # A waiter that nobody renews is gone after ten seconds, on a busy machine before the list.
        assert len({each["name"] for each in said.objects}) == names
        assert proxy.turns <= FEW
        if start is on_redis:
            # One per page and some greetings. On a busy machine a page, which is more than one
            # read of the proxy takes, may be answered before it has read all of it.
            pages = b"".join(proxy.requests).count(b"SCAN")
            assert pages >= 2
            assert proxy.turns <= 2 * pages + 6
