"""MariaDB with a replica that follows its binary log."""

from typing import ClassVar

import pymysql

from lockfast.engines.mysql import install
from tests.robustness.hosts import Host, host_of
from tests.robustness.sites.site import COMMON, PROXIED, Site
from tests.servers.clock import ServerClock
from tests.servers.mariadb import MariaDB
from tests.servers.process import Server, ServerError

_PATIENCE = 60.0
# What a new replica need not sync while it catches up: until then nobody promotes it.
_SYNCS = ("innodb_flush_log_at_trx_commit", "sync_binlog")
_LOGGED = {
    "log-bin": "binlog",
    "log-slave-updates": "1",
    "sync-binlog": "1",
    # Not a minute: until then a replica takes the silence of a primary that was killed for peace.
    "slave-net-timeout": "4",
    # After a crash, a relay log that was written in part is fetched again.
    "relay-log-recovery": "1",
}


class MySQLSite(Site):
    """A primary, which a proxy leads to, and a replica that follows it without being waited for."""

    primary: MariaDB
    replica: MariaDB
    name = "mysql"
    engine = "mysql"
    kinds: ClassVar[tuple[str, ...]] = (
        *COMMON,
        *PROXIED,
        "cut-minority",
        "slow-fsync",
        "clock-server",
        "stale-failover",
        "clock-ahead",
    )

    @property
    def url(self) -> str:
        """The address of the proxy."""
        primary = self.primary
        return primary.url.replace(f"{primary.host}:{primary.port}", self.proxies[0].address)

    def version(self) -> str:
        """Ask the primary."""
        return f"MariaDB {self.primary.version()}"

    def leader(self) -> MariaDB:
        """Tell the primary."""
        return self.primary

    def prepare(self) -> None:
        """Install the schema, and wait until the replica has it."""
        install(self.primary.url)
        self.wait_in_step()

    def serves(self) -> bool:
        """Tell whether the primary takes writes and the replica follows."""
        try:
            return self.primary.is_ready() and self.replica.follows()
        except pymysql.MySQLError:
            return False

    def wait_in_step(self) -> None:
        """Wait until the replica has what the primary has written so far."""
        self.replica.caught_up(self.primary, timeout=_PATIENCE)

    def replicas(self) -> list[MariaDB]:
        """Tell the replica, if it runs."""
        return [self.replica] if self.replica.alive else []

    def fail_over(self, dead: Server) -> None:
        """Promote the replica, and lead clients to it."""
        if dead is self.primary:
            try:
                self.replica.promote()
            except pymysql.MySQLError as error:
                raise ServerError(f"the replica was not promoted: {error}") from error
            self.primary, self.replica = self.replica, self.primary
            self.proxies[0].retarget(self.primary.host, self.primary.port)

    def follow(self, dead: Server) -> None:
        """Make the dead server's host the home of a new replica: the old one knows too much."""
        self.proxies[0].retarget(self.primary.host, self.primary.port)
        dead.close()
        self.servers.remove(dead)
        self._copy(host_of(dead))
        self.wait_served()

    def _copy(self, host: Host) -> None:
        replica = MariaDB(
            config={**_LOGGED, "read-only": "1"},
            tls=self.certificates or False,
            env=ServerClock().env,
            home=host,
        )
        self.replica = replica
        self.servers.append(replica)
        replica.start(_PATIENCE)
        for name in _SYNCS:
            replica.command(f"SET GLOBAL {name} = 0")
        replica.follow(self.primary, timeout=_PATIENCE)
        for name in _SYNCS:
            replica.command(f"SET GLOBAL {name} = 1")

    def _build(self) -> None:
        self.primary = MariaDB(
            config=_LOGGED,
            tls=self.certificates or False,
            env=ServerClock().env,
            home=self.network.host(),
        )
        self.servers.append(self.primary)
        self.primary.start(_PATIENCE)
        self._front([self.primary], [self.primary.port])
        self._copy(self.network.host())
