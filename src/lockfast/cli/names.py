"""The arguments NAME and PREFIX, with shell completion from the live engine."""

from __future__ import annotations

import re
from typing import Annotated, cast

import typer

import lockfast
from lockfast.cli.engine_url import chosen
from lockfast.plain import plain

# Names without characters that are special to a shell, and that no command takes for an option.
# The scripts that typer installs insert a completion into the command line unquoted, so the shell
# would run a `$(...)` in a lock's name.
HARMLESS = re.compile(r"[\w/.:@][\w/.:@,+%=-]*")


def complete(context: typer.Context, incomplete: str) -> list[str]:
    """Return the names in use now that begin with `incomplete` and match `HARMLESS`.

    Never raises.
    """
    try:
        above = cast("typer.Context", context.find_root())
        url = chosen(above, above.params.get("url"), above.params.get("url_file"))
        with lockfast.connect(url) as client:
            names = {claim.name for claim in client.inspect(incomplete)}
    except Exception:  # noqa: BLE001  # an error would garble the line that the user is typing
        return []
    return sorted(name for name in names if HARMLESS.fullmatch(name) and plain(name) == name)


def readable(said: str | None) -> str | None:
    """Return the argument, or raise `BadParameter` if it is not valid UTF-8.

    Python passes invalid bytes of an argument on as lone surrogates.
    """
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
        help="The name of the lock.",
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
        help="List only names that begin with PREFIX.",
        autocompletion=complete,
        show_default=False,
    ),
]
