"""`lockfast deadlocks`: circles of waits that can never end, in words."""

from __future__ import annotations

import typer
from rich.text import Text

from lockfast.cli.engine_url import connect
from lockfast.cli.render.claims import fields
from lockfast.cli.render.stdout import Json, show, tell
from lockfast.plain import plain


def deadlocks(context: typer.Context, *, json: Json = False) -> int:
    """Find threads and tasks that wait for each other in a circle, on all machines.

    A program notices its own deadlocks after a second, and the youngest claim of the circle gives
    way. What is shown here for longer is of programs that were told not to look
    (deadlock_after=None), or that cannot: one of them is stopped, or has died and its time is
    not over. What is shown was there in two readings, one after the other.

    For example:
      lockfast deadlocks
      lockfast deadlocks || mail -s deadlock ops@example.com

    Exit codes:
      0   there is none
      1   there is one
      69  the engine cannot be reached
      78  the engine refuses us: a wrong password, no rights, no schema
    """
    with connect(context) as client:
        circles = client.deadlocks()
    for circle in circles:
        if json:
            tell(
                {
                    "circle": [
                        {"waiting": fields(tie.waiting), "blocker": fields(tie.blocker)}
                        for tie in circle
                    ]
                }
            )
        else:
            show(Text(f"A circle of {len(circle)}:"))
            for tie in circle:
                show(Text(f"  {plain(str(tie))}"))
    if circles and not json:
        show("To end one: lockfast break NAME --reason TEXT, or stop one of these processes.")
    if not circles and not json:
        show("No deadlock.")
    return 1 if circles else 0
