"""PostgreSQL with a streaming replica."""

import contextlib
from typing import ClassVar

import psycopg

from lockfast.engines.postgres import install
from tests.robustness.hosts import Host, host_of
from tests.robustness.sites.site import COMMON, PROXIED, Access, Site
from tests.servers.clock import ServerClock
from tests.servers.postgres import PgBouncer, Postgres
from tests.servers.process import Server, wait_until

_PATIENCE = 60.0


class PostgresSite(Site):
    """A primary, which a proxy leads to, and a replica that follows it without being waited for."""

    primary: Postgres
    replica: Postgres
    name = "postgres"
    engine = "postgres"
    kinds: ClassVar[tuple[str, ...]] = (
        *COMMON,
        *PROXIED,
        "cut-minority",
        "slow-fsync",
        "clock-server",
        "stale-failover",
        "clock-ahead",
    )

    def __init__(self) -> None:
        """Begin without a PgBouncer."""
        super().__init__()
        self._bouncers: dict[Postgres, PgBouncer] = {}

    @property
    def url(self) -> str:
        """The address of the proxy."""
        primary = self.primary
        return primary.url.replace(f"{primary.host}:{primary.port}", self.proxies[0].address)

    def version(self) -> str:
        """Ask the primary, and the PgBouncer before it."""
        said = f"PostgreSQL {self.primary.version()}"
        bouncer = self._bouncers.get(self.primary)
        return f"{said}, PgBouncer {bouncer.version()}" if bouncer else said

    def leader(self) -> Postgres:
        """Tell the primary."""
        return self.primary

    def prepare(self) -> None:
        """Install the schema, and wait until the replica has it."""
        install(self.primary.url)
        self.wait_in_step()

    def serves(self) -> bool:
        """Tell whether the primary takes writes and the replica follows."""
        try:
            rows = self.primary.command("SELECT state FROM pg_stat_replication")
        except psycopg.OperationalError:
            return False
        return rows == [("streaming",)]

    def wait_in_step(self) -> None:
        """Wait until the replica has what the primary has written so far."""
        position = self.primary.command("SELECT pg_current_wal_lsn()")[0][0]
        asked = f"SELECT pg_last_wal_replay_lsn() >= '{position}'::pg_lsn"
        wait_until(
            lambda: self.replica.command(asked) == [(True,)], "the replica is in step", _PATIENCE
        )

    def replicas(self) -> list[Postgres]:
        """Tell the replica, if it runs."""
        return [self.replica] if self.replica.alive else []

    def fail_over(self, dead: Server) -> None:
        """Promote the replica, and lead clients to it."""
        if dead is self.primary:
            self.replica.promote()
            self.primary, self.replica = self.replica, self.primary
            self.proxies[0].retarget(self.primary.host, self._port(self.primary))

    def follow(self, dead: Server) -> None:
        """Make the dead server's host the home of a new replica: the old one knows too much."""
        self.proxies[0].retarget(self.primary.host, self._port(self.primary))
        for server in [each for each in self._bouncers if each is dead]:
            self._bouncers.pop(server).close()
        dead.close()
        self.servers.remove(dead)
        self._copy(host_of(dead))
        self.wait_served()

    def close(self) -> None:
        """End the PgBouncers too."""
        with contextlib.ExitStack() as stack:
            stack.callback(super().close)
            for bouncer in self._bouncers.values():
                stack.callback(bouncer.close)

    def _port(self, server: Postgres) -> int:
        """Tell where clients are led to at a server's host: to it, or to a PgBouncer beside it."""
        if self.access is not Access.POOLED:
            return server.port
        if server not in self._bouncers:
            self._bouncers[server] = PgBouncer(server, pool_size=20, home=host_of(server))
            self._bouncers[server].start(_PATIENCE)
        return self._bouncers[server].port

    def _copy(self, host: Host) -> None:
        self.replica = Postgres(
            replica_of=self.primary,
            certificates=self.certificates,
            env=ServerClock().env,
            home=host,
        )
        self.servers.append(self.replica)
        self.replica.start(_PATIENCE)

    def _build(self) -> None:
        self.primary = Postgres(
            certificates=self.certificates, env=ServerClock().env, home=self.network.host()
        )
        self.servers.append(self.primary)
        self.primary.start(_PATIENCE)
        self._front([self.primary], [self._port(self.primary)])
        self._copy(self.network.host())
