"""The tables and procedures of the engine: reads schema.sql, and splits it into statements."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files

END = "//"  # ends a statement in schema.sql, because procedures contain semicolons
CREATE, REPLACE = "CREATE PROCEDURE ", "CREATE OR REPLACE PROCEDURE "
PART = "-- part "
MARIADB = "MARIADB_"  # begins the name of a part that replaces another one on MariaDB


def _file(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")


def parts() -> dict[str, str]:
    """Return the parts in parts.sql by name."""
    found = {}
    for each in _file("parts.sql").split(f"\n{PART}")[1:]:
        name, _, rest = each.partition(":")
        lines = rest.split("\n")[1:]
        while lines and lines[0].startswith("--"):  # the rest of the part's description
            del lines[0]
        found[name] = "\n".join(lines).strip()
    return found


NOW = parts()["NOW"]
"""The expression for the server's clock in µs."""


def text(*, mariadb: bool) -> str:
    """Return all of the SQL, as the command-line client of the server reads it."""
    raw, pieces = _file("schema.sql"), parts()
    if mariadb:
        own = {name: piece for name, piece in pieces.items() if name.startswith(MARIADB)}
        pieces |= {name.removeprefix(MARIADB): piece for name, piece in own.items()}
    for _ in range(4):  # parts contain parts
        for name, piece in pieces.items():
            raw = raw.replace("{" + name + "}", piece)
    return raw.replace(CREATE, REPLACE) if mariadb else _dropping(raw)


def _dropping(raw: str) -> str:
    """Drop each procedure before it is created: MySQL cannot replace one."""
    lines = []
    for line in raw.split("\n"):
        if line.startswith(CREATE):
            name = line.removeprefix(CREATE).partition("(")[0]
            lines.append(f"DROP PROCEDURE IF EXISTS {name}{END}")
        lines.append(line)
    return "\n".join(lines)


def statements(sql: str) -> Iterator[str]:
    """Split the SQL into its statements."""
    _, _, rest = sql.partition(f"DELIMITER {END}")
    for statement in rest.split(f"{END}\n"):
        if statement.strip():
            yield statement
