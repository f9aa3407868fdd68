"""Derives the guarantees of a PostgreSQL server from its settings."""

from __future__ import annotations

from lockfast.engines.postgres.connection import Row
from lockfast.guarantees import Finding, Guarantees, Level

ASK = b"""SELECT pg_catalog.current_setting('server_version'),
 pg_catalog.current_setting('fsync'), pg_catalog.current_setting('full_page_writes'),
 pg_catalog.current_setting('synchronous_standby_names')"""

FORGETS = (
    "a crash keeps every grant; the promotion of a replica that lagged may forget some, so two "
    "processes can hold a lock at once; tokens stay unique and in order through both while the "
    "servers' clocks agree"
)
WAITS = (
    "a crash keeps every grant, and so does the promotion of a synchronous standby unless a commit "
    "was cancelled while it waited for it; tokens stay unique and in order while clocks agree"
)


def guarantees(rows: list[Row], *, deaf: bool, unverified: str | None) -> Guarantees:
    """Return the guarantees of a server with these settings. `deaf`: a pooler swallows its
    notifications. `unverified`: the sslmode with which it got a password over the network.
    """
    version, fsync, pages, standbys = ((value or b"").decode() for value in rows[0])
    findings = []
    for setting, value in (("fsync", fsync), ("full_page_writes", pages)):
        if value != "on":
            findings.append(
                Finding(
                    f"{setting} = {value}",
                    "a power cut may lose grants and tokens, or the whole database",
                    f"ALTER SYSTEM SET {setting} = on; SELECT pg_reload_conf()",
                )
            )
    if deaf:
        findings.append(
            Finding(
                "a pooler in transaction mode",
                "notifications do not pass through it, so waiters poll every half second",
                "add ?listen=postgresql://DIRECT to the URL",
            )
        )
    if unverified is not None:
        findings.append(
            Finding(
                f"sslmode = {unverified}",
                "the client sent the password to a server whose certificate it did not verify, so "
                "another server can read it, and grant locks",
                "add ?sslmode=verify-full&sslrootcert=PATH to the URL",
            )
        )
    return Guarantees(
        f"PostgreSQL {version.split()[0]}",
        Level.EFFICIENCY if fsync != "on" or pages != "on" else Level.FENCED,
        WAITS if standbys else FORGETS,
        tuple(findings),
    )
