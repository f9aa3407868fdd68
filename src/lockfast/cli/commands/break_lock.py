"""`lockfast break`: take a lock away from its holder, after showing what that does not stop."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from rich.text import Text

from lockfast.cli.engine_url import connect
from lockfast.cli.names import Name, readable
from lockfast.cli.render.stderr import say
from lockfast.cli.render.stdout import Json, labelled, show, tell
from lockfast.plain import plain
from lockfast.show.claims import described, fields
from lockfast.show.consequences import consequences

Reason = Annotated[
    str,
    typer.Option(
        help="Why you break the lock. It is stored, and shown to the old holder.",
        callback=readable,
        show_default=False,
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
Id = Annotated[
    str | None,
    typer.Option(
        "--id",
        metavar="ID",
        help="The id of the holder, from `who --json`. It is needed if the lock has several.",
    ),
]


def breaks(  # noqa: PLR0913  # each is an option
    context: typer.Context,
    name: Name,
    reason: Reason,
    *,
    id_: Id = None,
    yes: Yes = False,
    json: Json = False,
) -> int:
    """Take the lock NAME away from its holder, and let the next waiter acquire it.

    This does not stop the old holder. It notices the loss at its next renewal, and may write until
    then. Use this for a holder that hangs, or that you cannot reach to stop it. The command
    first shows what the old holder can still do and what a guard will reject, and asks you to
    confirm.

    For example:
      lockfast break invoice:42 --reason "web-3 hangs, incident 4711"
      lockfast break invoice:42 --reason "a drill" --yes

    Exit codes:
      0   it was broken
      1   no process holds it, or you did not confirm
      69  the engine cannot be reached
      78  the engine rejects the request: a wrong password, no rights, no schema
    """
    with connect(context) as client:
        queue = client.lock(name).queue()
        holders = [claim for claim in queue if claim.granted and id_ in {None, claim.id}]
        if not holders:
            say(f"no process holds {name!r}" + (f" with the id {id_!r}" if id_ else ""))
            return 1
        if len(holders) > 1:
            raise ValueError(
                f"{len(holders)} processes hold {name!r}: choose one with --id. "
                + "; ".join(f"{claim.id} is {described(claim)}" for claim in holders)
            )
        holder = holders[0]
        if not json:
            for line in consequences(holder, len(queue) > 1):
                text = line.removeprefix("- ")
                labelled(line.removesuffix(text), text)
        if not yes and not _agreed():
            return 1
        broken = client.revoke(holder, reason)
    if json:
        tell({"broken": broken, "reason": reason, "claim": fields(holder)})
    elif broken:
        show(Text(f"Broken: {plain(reason)}"))
    else:
        show("The lease had already ended.")
    return 0 if broken else 1


def _agreed() -> bool:
    if not sys.stdin.isatty():
        raise ValueError("break asks for confirmation, which needs a terminal: pass --yes")
    return typer.confirm("Break it?")
