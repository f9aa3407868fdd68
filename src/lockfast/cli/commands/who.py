"""`lockfast who`: who holds one lock, and who waits for it."""

from __future__ import annotations

import typer
from rich.text import Text

from lockfast import EngineError, Holder
from lockfast.breaks import Break
from lockfast.cli.engine_url import connect
from lockfast.cli.names import Name
from lockfast.cli.render.stderr import say
from lockfast.cli.render.stdout import Json, show, tell
from lockfast.plain import plain
from lockfast.show.claims import described, fields


def who(context: typer.Context, name: Name, *, json: Json = False) -> int:
    """Show who holds the lock NAME, who waits for it in the order of the queue, and who broke it
    last and why.

    Records of breaks are kept for a day. ZooKeeper keeps at most the last 64 of a group of names.

    For example:
      lockfast who invoice:42
      lockfast who invoice:42 --json | jq -r 'select(.state == "holds") | .host'

    Exit codes:
      0   it is held
      1   it is free
      69  the engine cannot be reached
      78  the engine rejects the request: a wrong password, no rights, no schema
    """
    with connect(context) as client:
        claims = client.lock(name).queue()
        try:
            broken = client.breaks(name)
        except EngineError as error:  # the claims were read, so show them without the breaks
            broken = []
            say(f"who broke the lock could not be read: {plain(str(error))}")
    if json:
        for claim in claims:
            tell(fields(claim))
        for each in broken:
            tell({"name": name, "state": "broken", **each._asdict(), "ticket": str(each.ticket)})
    else:
        show(Text("\n".join([*_lines(name, claims), *_breaks(broken)])))
    return 0 if any(claim.granted for claim in claims) else 1


def _lines(name: str, claims: list[Holder]) -> list[str]:
    holders = [claim for claim in claims if claim.granted]
    waiters = [claim for claim in claims if not claim.granted]
    if not claims:
        return [f"{name!r} is free."]
    lines = [f"{name!r} is held by" if holders else f"No process holds {name!r} now."]
    for claim in holders:
        lines.append(f"  {described(claim)}")
        shared = f"token {claim.token}" if claim.token is not None else f"ticket {claim.ticket}"
        lines.append(f"    {shared}; its lease ends in {claim.left:.0f} s, unless it is renewed")
        if claim.value:
            lines.append(f"    it publishes {plain(claim.value)}")
    if waiters:
        lines.append("and waited for by")
        lines += [f"  {n}. {described(claim)}" for n, claim in enumerate(waiters, 1)]
    return lines


def _breaks(broken: list[Break]) -> list[str]:
    """Return the lines on the last break, for an operator who asks why the holder has changed."""
    if not broken:
        return []
    # The ticket has a line of its own, since the reason is free text such as "ticket 4711".
    last = broken[0]
    return [f"It was last {last}", f"    the broken lease had ticket {last.ticket}"]
