"""TLS files that are renewed while a client runs: its next connection uses them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from lockfast.engines import mysql, postgres, redlock
from lockfast.testing import MODES, Stage, UrlBench
from lockfast.testing.harness.verbs import acquire, release
from tests.servers import EtcdCluster, MariaDB, Postgres, Redis, RedlockSet, Server, ZooKeeper
from tests.servers.certificates import Certificates


class Anywhere(UrlBench):
    """Servers that one test has for itself."""

    def wipe(self) -> None:
        """Leave them."""


@dataclass
class Site:
    """Servers that demand a certificate of their CA, which the URL names too."""

    url: str
    files: Certificates
    servers: Sequence[Server]
    prepare: Callable[[], object] = bool
    """Done before the servers start again."""
    repair: Callable[[], object] = bool
    """Done after that."""

    def renew(self) -> None:
        """Replace the CA and all certificates; the servers trust no old one any more."""
        for server in self.servers:
            server.stop()
        self.files.issue()
        self.prepare()
        for server in self.servers:
            server.start(timeout=30.0)
        self.repair()


def files_of(server: Redis) -> Certificates:
    assert server._certificates is not None
    return server._certificates


@contextmanager
def on_redis() -> Iterator[Site]:
    with Redis(tls=True, mutual=True) as server:
        yield Site(server.url, files_of(server), [server])


@contextmanager
def on_redlock() -> Iterator[Site]:
    first = Redis(tls=True, mutual=True)
    nodes = [first, *(Redis(tls=first, mutual=True) for _ in range(2))]
    with RedlockSet(nodes) as members:
        # Nodes that have all restarted are no members any more.
        yield Site(
            members.url,
            files_of(first),
            nodes,
            repair=lambda: redlock.install(members.url, lost=True),
        )


@contextmanager
def on_zookeeper(folder: Path) -> Iterator[Site]:
    files = Certificates(folder)
    server = ZooKeeper(certificates=files)
    server.configure(**{"ssl.clientAuth": "need"})
    with server:
        options = (
            f"ssl_ca={files.ca_path}&ssl_cert={files.certificate_path}&ssl_key={files.key_path}"
        )
        url = f"zookeeper://{server.host}:{server.secure_port}?{options}"
        yield Site(url, files, [server], prepare=lambda: server.show(files))


@contextmanager
def on_etcd() -> Iterator[Site]:
    with EtcdCluster(1, tls=True, mutual=True) as cluster:
        files = cluster.nodes[0].certificates
        assert files is not None
        yield Site(cluster.url, files, cluster.nodes)


@contextmanager
def on_postgres() -> Iterator[Site]:
    server = Postgres(config={"fsync": "off", "ssl": "on"})
    files = Certificates(server.folder)

    def own() -> None:
        if os.geteuid() == 0:  # the server reads its key as another user
            shutil.chown(files.key_path, "postgres", "postgres")

    own()
    with (server.data_path / "postgresql.conf").open("a", encoding="utf-8") as file:
        file.write(f"ssl_ca_file = '{files.ca_path}'\n")
        file.write(f"ssl_cert_file = '{files.certificate_path}'\n")
        file.write(f"ssl_key_file = '{files.key_path}'\n")
    (server.data_path / "pg_hba.conf").write_text(
        "host all postgres 127.0.0.1/32 trust\n"
        "hostssl all app 127.0.0.1/32 trust clientcert=verify-ca\n",
        encoding="utf-8",
    )
    with server:
        server.command("CREATE ROLE app LOGIN")
        postgres.install(server.url, role="app")
        options = (
            f"sslmode=verify-full&sslrootcert={files.ca_path}"
            f"&sslcert={files.certificate_path}&sslkey={files.key_path}"
        )
        url = f"postgresql://app@{server.host}:{server.port}/postgres?{options}"
        yield Site(url, files, [server], prepare=own)


@contextmanager
def on_mysql() -> Iterator[Site]:
    with MariaDB(tls=True) as server:
        files = server._certificates
        assert files is not None
        server.command("CREATE USER app@'%' IDENTIFIED BY 'tests' REQUIRE X509")
        mysql.install(server.url, role="app")
        options = f"&ssl_cert={files.certificate_path}&ssl_key={files.key_path}"
        # The server reads its key as another user.
        yield Site(
            server.address("app", "tests") + options,
            files,
            [server],
            prepare=lambda: files.key_path.chmod(0o644),
        )


@pytest.fixture(params=["redis", "redlock", "zookeeper", "etcd", "postgres", "mysql"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    made: dict[str, Callable[[], AbstractContextManager[Site]]] = {
        "redis": on_redis,
        "redlock": on_redlock,
        "zookeeper": lambda: on_zookeeper(tmp_path),
        "etcd": on_etcd,
        "postgres": on_postgres,
        "mysql": on_mysql,
    }
    with made[request.param]() as site:
        yield site


@pytest.mark.parametrize("mode", sorted(MODES))
def test_a_client_takes_renewed_certificates_without_a_restart(site: Site, mode: str) -> None:
    stage = Stage(Anywhere(site.url), MODES[mode]())

    async def play() -> None:
        client = stage.client()
        await release(await acquire(client.lock("before", ttl=3.0), 5.0))
        site.renew()
        await release(await acquire(client.lock("after", ttl=3.0), 10.0))

    stage.mode.run(play())
    stage.mode.run(stage.clear())
    stage.mode.close()
