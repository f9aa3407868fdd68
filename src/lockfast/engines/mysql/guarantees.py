"""Derives the guarantees of a MySQL or MariaDB server from its settings."""

from __future__ import annotations

from lockfast.engines.mysql.results import Row
from lockfast.engines.mysql.url import Address, Mode
from lockfast.guarantees import Finding, Guarantees, Level

Settings = dict[str, str]
SMALL = 2**18
"""Bytes of a packet. In less, a request with the names of many held locks may not fit."""
_NAMES = (
    "version",
    "innodb_flush_log_at_trx_commit",
    "innodb_doublewrite",
    "log_bin",
    "sync_binlog",
    "binlog_format",
    "max_allowed_packet",
    "thread_handling",
    "wsrep_on",
    "wsrep_provider",
    "wsrep_retry_autocommit",
    "rpl_semi_sync_master_enabled",
    "rpl_semi_sync_source_enabled",
    "rpl_semi_sync_master_wait_point",
    "rpl_semi_sync_source_wait_point",
)
_STATES = (
    "wsrep_cluster_size",
    "Rpl_semi_sync_master_status",
    "Rpl_semi_sync_source_status",
    "Rpl_semi_sync_master_clients",
    "Rpl_semi_sync_source_clients",
)


def _show(what: str, names: tuple[str, ...]) -> bytes:
    listed = ", ".join(f"'{name}'" for name in names)
    return f"SHOW GLOBAL {what} WHERE Variable_name IN ({listed})".encode()


VARIABLES, STATUS = _show("VARIABLES", _NAMES), _show("STATUS", _STATES)

FORGETS = (
    "a crash keeps every grant; the promotion of a replica that lagged may forget some, so two "
    "processes can hold a lock at once; tokens stay unique and in order through both while the "
    "servers' clocks agree"
)
WAITS = (
    "a crash keeps every grant, and so does the promotion of a replica while semi-synchronous "
    "replication is active: it ends without notice when no replica answers in time; tokens stay "
    "unique and in order while clocks agree"
)
CLUSTER = (
    "a crash keeps every grant, and by design the rest of a Galera cluster keeps those of a node "
    "that fails, if it is the majority; others have seen Galera lose some, so two processes can "
    "hold a lock at once; tokens stay unique and in order while clocks agree"
)
LOSES = (
    "a crash or a power cut may forget grants, so two processes can hold a lock at once; tokens "
    "stay unique and in order while the server's clock does not go back"
)


def table(rows: list[Row]) -> Settings:
    """Read names and values."""
    return {
        (name or b"").decode("ascii", "replace").lower(): (value or b"").decode("utf-8", "replace")
        for name, value in rows
    }


def guarantees(
    settings: Settings, status: Settings, address: Address, deaf: str = ""
) -> Guarantees:
    """Return the guarantees of a server with these settings and this status. `deaf`: the account
    that installed the procedures, if it may not wake clients.
    """
    losses = _durability(settings)
    if losses:
        promise = LOSES
    elif _galera(settings):
        promise = CLUSTER
    else:
        promise = WAITS if _semi_sync(settings, status) else FORGETS
    version = settings.get("version", "?")
    name = "MariaDB" if "mariadb" in version.lower() else "MySQL"
    return Guarantees(
        f"{name} {version.partition('-')[0]}",
        Level.EFFICIENCY if losses else Level.FENCED,
        promise,
        (
            *losses,
            *_replication(settings, status),
            *_galera_settings(settings, status),
            *_packets(settings),
            *_waking(settings, deaf, name),
            *_network(address),
        ),
    )


def _durability(settings: Settings) -> list[Finding]:
    findings = []
    flush = settings.get("innodb_flush_log_at_trx_commit", "1")
    if flush not in {"1", "3"}:
        findings.append(
            Finding(
                f"innodb_flush_log_at_trx_commit = {flush}",
                "a power cut may lose grants and tokens"
                if flush == "2"
                else "a crash or a power cut may lose grants and tokens",
                "SET GLOBAL innodb_flush_log_at_trx_commit = 1",
            )
        )
    if settings.get("innodb_doublewrite", "ON").upper() in {"0", "OFF"}:
        findings.append(
            Finding(
                "innodb_doublewrite = OFF",
                "a power cut may destroy the database",
                "innodb_doublewrite = ON in the server's configuration",
            )
        )
    binlog, sync = settings.get("log_bin", "OFF").upper(), settings.get("sync_binlog", "1")
    if binlog in {"1", "ON"} and sync != "1":
        findings.append(
            Finding(
                f"sync_binlog = {sync}",
                "after a power cut the binary log may lack grants that replicas have, or the other "
                "way round",
                "SET GLOBAL sync_binlog = 1",
            )
        )
    return findings


def _replication(settings: Settings, status: Settings) -> list[Finding]:
    findings = []
    if settings.get("binlog_format", "ROW").upper() == "STATEMENT":
        findings.append(
            Finding(
                "binlog_format = STATEMENT",
                "with a binary log the server refuses every lock, because lockfast needs READ "
                "COMMITTED",
                "SET GLOBAL binlog_format = ROW",
            )
        )
    if _enabled(settings, "enabled"):
        point = _wait_point(settings)
        if not _active(status):
            findings.append(
                Finding(
                    "semi-synchronous replication is not active",
                    "no replica is connected, or none has answered in time, so a grant is reported "
                    "before any replica has it",
                    "connect the replicas",
                )
            )
        elif point is not None:
            findings.append(
                Finding(
                    f"{point} = {settings[point]}",
                    "other clients see a grant before a replica has it",
                    f"SET GLOBAL {point} = AFTER_SYNC",
                )
            )
    return findings


def _galera_settings(settings: Settings, status: Settings) -> list[Finding]:
    findings: list[Finding] = []
    if not _galera(settings):
        return findings
    size, retries = status.get("wsrep_cluster_size", "0"), "wsrep_retry_autocommit"
    if not size.isdigit() or int(size) < 3:  # noqa: PLR2004  # the smallest majority
        findings.append(
            Finding(
                f"a Galera cluster of {size}",
                "without a third node, no node that is left is a majority",
                "add a node, or an arbitrator (garbd)",
            )
        )
    if settings.get(retries, "0") != "0":
        findings.append(
            Finding(
                f"{retries} = {settings[retries]}",
                "a conflict between two nodes can leave a client without an answer",
                f"SET GLOBAL {retries} = 0",
            )
        )
    return findings


def _packets(settings: Settings) -> list[Finding]:
    size = settings.get("max_allowed_packet", "")
    if not size.isdigit() or int(size) >= SMALL:
        return []
    return [
        Finding(
            f"max_allowed_packet = {size}",
            "a thread or task that holds many locks may be refused another one, because the "
            "request lists their names",
            "SET GLOBAL max_allowed_packet = 16777216",
        )
    ]


def _waking(settings: Settings, deaf: str, name: str) -> list[Finding]:
    if settings.get("thread_handling", "").lower() == "pool-of-threads":  # nobody is woken there
        return [
            Finding(
                "thread_handling = pool-of-threads",
                "a release cannot wake a waiter, so waiters ask every half second",
                "thread_handling = one-thread-per-connection in the server's configuration",
            )
        ]
    if not deaf:
        return []
    right = "CONNECTION ADMIN" if name == "MariaDB" else "CONNECTION_ADMIN"
    user, _, host = deaf.replace("'", "''").rpartition("@")
    return [
        Finding(
            f"{deaf}, who installed the procedures, has no right {right}",
            "a release cannot wake a waiter, so waiters ask every half second",
            f"GRANT {right} ON *.* TO '{user}'@'{host}'",
        )
    ]


def _network(address: Address) -> list[Finding]:
    mode = address.unverified
    if mode is None:
        return []
    if mode is Mode.DISABLED:
        return [
            Finding(
                "ssl_mode = disabled",
                "anyone on the network path can change every reply, and learn enough of the "
                "password to guess it",
                "remove ssl_mode from the URL, and add ?ssl_ca=PATH",
            )
        ]
    whoever = "anyone on the network path"
    if mode is Mode.VERIFY_CA:
        whoever = f"{whoever} who has a certificate of the same authority"
    return [
        Finding(
            f"ssl_mode = {mode.value}",
            f"{whoever} can pass for the server, and grant locks",
            "write ssl_mode=verify_identity&ssl_ca=PATH in the URL",
        )
    ]


def _galera(settings: Settings) -> bool:
    on = settings.get("wsrep_on", "OFF").upper() in {"1", "ON"}
    return on and settings.get("wsrep_provider", "none") not in {"", "none"}


def _enabled(settings: Settings, what: str) -> bool:
    names = (f"rpl_semi_sync_{role}_{what}" for role in ("master", "source"))
    return any(settings.get(name, "OFF").upper() in {"1", "ON"} for name in names)


def _active(status: Settings) -> bool:
    """Return whether commits wait for replicas. The server says so before the first commit finds
    that there is none.
    """
    clients = (status.get(f"rpl_semi_sync_{role}_clients", "0") for role in ("master", "source"))
    return _enabled(status, "status") and any(count != "0" for count in clients)


def _wait_point(settings: Settings) -> str | None:
    """Return the setting by which others see a commit before a replica has it, if it does."""
    for name, value in settings.items():
        if name.endswith("_wait_point") and value.upper() != "AFTER_SYNC":
            return name
    return None


def _semi_sync(settings: Settings, status: Settings) -> bool:
    """Return whether a replica has each commit before any client hears of it."""
    return _active(status) and _wait_point(settings) is None
