"""`lockfast ls`: list every lock that is held or waited for."""

from __future__ import annotations

import typer
from rich.text import Text

from lockfast.cli.engine_url import connect
from lockfast.cli.names import Prefix
from lockfast.cli.render.stdout import Json, console, show, tell
from lockfast.cli.render.table import table
from lockfast.plain import plain
from lockfast.show.claims import by_name, fields


def ls(context: typer.Context, prefix: Prefix = "", *, json: Json = False) -> None:
    """List the locks that are held or waited for, with who holds them.

    The command reads the list in pages, and changes nothing. The age is how long ago the holder
    asked for the lock, by its own clock. The ttl is how much of its lease is left before it must
    be renewed. The token is the number that a guard compares.

    For example:
      lockfast ls                                 all locks
      lockfast ls invoice:                        names that begin with invoice:
      lockfast ls --json | jq -r .name | sort -u

    Exit codes:
      0   the list was read, even if it is empty
      69  the engine cannot be reached
      78  the engine rejects the request: a wrong password, no rights, no schema
    """
    with connect(context) as client:
        claims = client.inspect(prefix)
    if json:
        for claim in claims:
            tell(fields(claim))
    elif claims:
        show(table(by_name(claims), console().width, whole=True))
    else:
        begins = f" whose name begins with {plain(repr(prefix))}" if prefix else ""
        show(Text(f"No lock{begins} is held."))
