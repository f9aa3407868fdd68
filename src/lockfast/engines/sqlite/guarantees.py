"""What locks in a SQLite database promise."""

from __future__ import annotations

import sqlite3
import sys

from lockfast.guarantees import Finding, Guarantees, Level

PROMISE = (
    "one host alone; a process that crashes keeps nobody out for longer than its ttl, and no grant "
    "is forgotten while the host runs; if the host stops, all holders stop with it; tokens stay "
    "unique and in order unless the file is lost and the host's clock goes back"
)


def guarantees() -> Guarantees:
    """Return the guarantees. The settings that they depend on are made by the engine itself."""
    findings: list[Finding] = []
    if sys.platform != "linux":
        findings.append(
            Finding(
                f"filesystem = unknown on {sys.platform}",
                "on a network filesystem, two hosts could both get a lock",
                "make sure that the file is on a local disk",
            )
        )
    return Guarantees(
        f"SQLite {sqlite3.sqlite_version}, on this host",
        Level.FENCED,
        PROMISE,
        tuple(findings),
    )
