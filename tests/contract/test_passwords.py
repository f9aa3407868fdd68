"""A password that changes while a client runs: the next login reads it from its file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

import lockfast
from lockfast import LockfastError, State
from lockfast.engines.mysql import install
from lockfast.testing import MODES, Stage, UrlBench
from lockfast.testing.harness.verbs import acquire, release
from tests.servers import EtcdCluster, MariaDB, Redis, RedlockSet

OLD, NEW = "p@ss/w:rd", "n%w w#rd"


class Anywhere(UrlBench):
    """Servers that one test has for itself."""

    def wipe(self) -> None:
        """Leave them."""


class Site:
    """Servers, and their URL without a password."""

    def __init__(self, url: str, change: Callable[[], object]) -> None:
        self.url = url
        self.change = change
        """Give the user another password, and end what was begun with the old one."""


@contextmanager
def redis() -> Iterator[Site]:
    with Redis(username="app", password=OLD) as server:
        yield Site(f"redis://app@{server.address}/0", lambda: _change(server))


@contextmanager
def redlock() -> Iterator[Site]:
    nodes = [Redis() for _ in range(3)]
    with RedlockSet(nodes):
        for node in nodes:
            node.command("ACL", "SETUSER", "app", "on", f">{OLD}", "~*", "&*", "+@all")
        hosts = ",".join(node.address for node in nodes)
        yield Site(f"redlock://app@{hosts}/0", lambda: _change(*nodes))


def _change(*servers: Redis) -> None:
    for server in servers:
        server.command("ACL", "SETUSER", "app", f">{NEW}", f"<{OLD}")
        server.command("CLIENT", "KILL", "USER", "app")


@contextmanager
def etcd() -> Iterator[Site]:
    with EtcdCluster(password=OLD, options=["--bcrypt-cost", "4"]) as cluster:
        hosts = cluster.url.rpartition("@")[2]
        node = cluster.leader()
        yield Site(
            f"etcd://app@{hosts}",
            lambda: node.post("auth/user/changepw", name="app", password=NEW),
        )


@contextmanager
def mysql() -> Iterator[Site]:
    with MariaDB() as server:
        server.command("CREATE USER app@'%%' IDENTIFIED BY %s", OLD)
        install(server.url, role="app")

        def change() -> None:
            server.command("ALTER USER app@'%%' IDENTIFIED BY %s", NEW)
            server.command("KILL USER app")

        yield Site(f"mysql://app@{server.host}:{server.port}/lockfast", change)


@pytest.mark.parametrize("site", [redis, redlock, etcd, mysql])
@pytest.mark.parametrize("mode", sorted(MODES))
def test_a_new_password_is_read_from_its_file_and_costs_no_lease(
    site: Callable[[], AbstractContextManager[Site]], mode: str, tmp_path: Path
) -> None:
    path = tmp_path / "password"
    path.write_text(f"{OLD}\n")
    with site() as servers:
        stage = Stage(Anywhere(f"{servers.url}?password_file={path}"), MODES[mode]())

        async def play() -> None:
            client = stage.client()
            lease = await acquire(client.lock("kept", ttl=3.0))
            path.unlink()  # a secret that is being replaced is missing for a moment
            servers.change()
            with pytest.raises(LockfastError, match="password_file"):
                await acquire(client.lock("other", ttl=3.0), 0.3)
            path.write_text(NEW)
            await stage.mode.sleep(4.0)
            assert lease.state is State.HELD
            await release(lease)
            await release(await acquire(client.lock("other", ttl=3.0), 3.0))

        stage.mode.run(play())
        stage.mode.run(stage.clear())
        stage.mode.close()


def test_a_password_and_a_file_with_one_are_one_too_many(tmp_path: Path) -> None:
    path = tmp_path / "password"
    path.write_text(OLD)
    with pytest.raises(ValueError, match="remove one of them"):
        lockfast.connect(f"redis://:x@localhost?password_file={path}")
    path.unlink()
    with pytest.raises(ValueError, match=r"password_file, .* cannot be read: No such file"):
        lockfast.connect(f"redis://localhost?password_file={path}")
