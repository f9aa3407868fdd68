"""The guard's SQL for SQLite. No driver, no I/O.

SQLite has one writer at a time. The first statement of a guarded transaction writes the mark, so no
other transaction can write until it ends. A holder that is paused in the middle of it keeps all
others waiting, and commits before any of them.
"""

from __future__ import annotations

from lockfast.guards.mark import Shown

CREATE = """CREATE TABLE IF NOT EXISTS lockfast_guard_mark (
 name  BLOB PRIMARY KEY, -- of the lock, in UTF-8
 token INTEGER NOT NULL, -- the highest token that was seen
 id    TEXT    NOT NULL  -- of the claim with that token
) WITHOUT ROWID"""
"""Rows are never deleted: without its mark, a lock would admit stale holders again."""
EXCLUSIVE = """INSERT INTO lockfast_guard_mark (name, token, id) VALUES (?1, ?2, ?3)
 ON CONFLICT (name) DO UPDATE SET token = excluded.token, id = excluded.id
 WHERE excluded.token > token OR (excluded.token = token AND excluded.id = id)"""
"""`lockfast.guards.mark.admit` for a holder alone. It changes no row if the holder is stale."""
SHARED = """INSERT INTO lockfast_guard_mark (name, token, id) VALUES (?1, ?2, '')
 ON CONFLICT (name) DO UPDATE SET
 id = CASE WHEN excluded.token > token THEN '' ELSE id END, token = max(token, excluded.token)
 WHERE ?3 >= token"""
"""The same for a reader, which raises the mark to its floor at most."""
CURRENT = "SELECT token FROM lockfast_guard_mark WHERE name = ?"
BEGIN, END = "SAVEPOINT lockfast_guard", "RELEASE lockfast_guard"
"""A savepoint ends with its transaction. So its release fails if the transaction is another one."""


def admission(at: Shown) -> tuple[str, tuple[bytes, int, str | int]]:
    """Return the statement that applies the rule, and its values."""
    name = at.name.encode()
    if at.shared:
        return SHARED, (name, at.floor, at.token)
    return EXCLUSIVE, (name, at.token, at.id)
