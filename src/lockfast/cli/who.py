"""`lockfast who`: who holds one lock, and who waits for it."""

from __future__ import annotations

import typer
from rich.text import Text

from lockfast import Holder
from lockfast.cli.claims import described, fields
from lockfast.cli.names import Name
from lockfast.cli.paper import Json, show, tell
from lockfast.cli.place import connect
from lockfast.plain import plain


def who(context: typer.Context, name: Name, *, json: Json = False) -> int:
    """Tell who holds the lock NAME, and who waits for it, in the order of the queue.

    For example:
      lockfast who invoice:42
      lockfast who invoice:42 --json | jq -r 'select(.state == "holds") | .host'

    Exit codes:
      0   it is held
      1   it is free
      69  the engine cannot be reached
    """
    with connect(context) as client:
        claims = client.lock(name).queue()
    if json:
        for claim in claims:
            tell(fields(claim))
    else:
        show(Text("\n".join(_lines(name, claims))))
    return 0 if any(claim.granted for claim in claims) else 1


def _lines(name: str, claims: list[Holder]) -> list[str]:
    holders = [claim for claim in claims if claim.granted]
    waiters = [claim for claim in claims if not claim.granted]
    if not claims:
        return [f"{plain(name)} is free."]
    lines = [f"{plain(name)} is held by" if holders else f"{plain(name)} is held by nobody now."]
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
