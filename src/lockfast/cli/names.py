"""Names on the command line: the arguments NAME and PREFIX, completed from the live engine."""

from __future__ import annotations

import re
from typing import Annotated, cast

import typer

import lockfast
from lockfast.cli.engine_url import chosen
from lockfast.plain import plain

# What no shell gives a meaning to, and no command takes for an option. The scripts that typer
# installs put a completion into the line as it is, so `$(...)` in a lock's name would be run.
HARMLESS = re.compile(r"[\w/.:@][\w/.:@,+%=-]*")


def complete(context: typer.Context, incomplete: str) -> list[str]:
    """Return the harmless names that are held now and begin so, for a shell. Never raises."""
    try:
        above = cast("typer.Context", context.find_root())
        url = chosen(above, above.params.get("url"), above.params.get("url_file"))
        with lockfast.connect(url) as client:
            names = {claim.name for claim in client.inspect(incomplete)}
    except Exception:  # noqa: BLE001  # whatever it is, the shell's line must not break
        return []
    return sorted(name for name in names if HARMLESS.fullmatch(name) and plain(name) == name)


def readable(said: str | None) -> str | None:
    """Refuse bytes that are no text: Python hands them over as halves of surrogate pairs."""
    try:
        (said or "").encode()
    except UnicodeEncodeError:
        raise typer.BadParameter(
            f"{plain(said or '')!r} is not valid UTF-8 text: write it in UTF-8"
        ) from None
    return said


Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="The lock's name.",
        callback=readable,
        autocompletion=complete,
        show_default=False,
    ),
]
Prefix = Annotated[
    str,
    typer.Argument(
        metavar="[PREFIX]",
        callback=readable,
        help="Only names that begin so.",
        autocompletion=complete,
        show_default=False,
    ),
]
