"""`lockfast deadlocks`: list the deadlocks between all clients of an engine."""

from __future__ import annotations

import typer
from rich.text import Text

from lockfast.cli.engine_url import connect
from lockfast.cli.render.stdout import Json, show, tell
from lockfast.plain import plain
from lockfast.show.claims import fields


def deadlocks(context: typer.Context, *, json: Json = False) -> int:
    """Find threads and tasks that wait for each other in a cycle, on all machines.

    Programs detect their own deadlocks after a second, and lockfast ends the youngest wait of the
    cycle with an error. A deadlock that stays longer has one of two causes: a program does not
    search for deadlocks (deadlock_after=None), or it cannot search, because it is stopped, or has
    crashed and its lease has not expired yet. The command reads all locks twice, and shows only
    deadlocks that it finds both times.

    For example:
      lockfast deadlocks
      lockfast deadlocks || mail -s deadlock ops@example.com

    Exit codes:
      0   there is no deadlock
      1   there is a deadlock
      69  the engine cannot be reached
      78  the engine rejects the request: a wrong password, no rights, no schema
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
            show(Text(f"Deadlock of {len(circle)} waiters:"))
            for tie in circle:
                show(Text(f"  {plain(str(tie))}"))
    if circles and not json:
        show("To end one: lockfast break NAME --reason TEXT, or stop one of these processes.")
    if not circles and not json:
        show("No deadlock.")
    return 1 if circles else 0
