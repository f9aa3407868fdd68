"""`lockfast watch`: a live table of all locks."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Annotated

import typer
from rich.live import Live

from lockfast import Client, EngineUnavailable
from lockfast.cli.engine_url import address, connect
from lockfast.cli.names import Prefix
from lockfast.cli.render.hot_names import Heat
from lockfast.cli.render.screen import View, screen
from lockfast.cli.render.stdout import Json, console, tell
from lockfast.show.claims import fields
from lockfast.show.graph import Graph

Every = Annotated[
    float, typer.Option("--every", metavar="SECONDS", min=0.1, help="Seconds between two updates.")
]
Count = Annotated[
    int | None, typer.Option("--count", metavar="N", min=1, help="End after N updates.")
]


def watch(
    context: typer.Context,
    prefix: Prefix = "",
    *,
    every: Every = 1.0,
    count: Count = None,
    json: Json = False,
) -> None:
    """Show the locks as they change: holders, waiters, hot names, who waits for whom.

    The locks with the most waiters come first. A bar shows how much of a lease is left. A
    live holder renews its lease when a third of the ttl has passed, so a red bar means that
    renewals fail. While the engine cannot be reached, the screen keeps the last state and says so.
    Ctrl-C ends the command.

    For example:
      lockfast watch                      everything, every second
      lockfast watch invoice: --every 5   names that begin with invoice:
      lockfast watch --json --count 1     one update, for a program

    Exit codes:
      0   it was ended by Ctrl-C, or after --count updates
      69  the engine cannot be reached when it starts
      78  the engine rejects the request: a wrong password, no rights, no schema
    """
    with connect(context) as client:
        looks = _looks(client, prefix, every, count)
        try:
            if json:
                for view, _ in looks:
                    tell(_fields(view))
            else:
                _show(f"{address(context)}  {prefix}", looks)
        except KeyboardInterrupt:
            return


def _looks(
    client: Client, prefix: str, every: float, count: int | None
) -> Iterator[tuple[View, str]]:
    """Yield what the engine shows, again and again, each time with an error message or "".

    If the engine cannot be reached after the first look, yield the last view with the message.
    """
    heat = Heat()
    view: View | None = None
    trouble = ""
    number = 0
    while True:
        try:
            view, trouble = _look(client, prefix, heat), ""
        except EngineUnavailable as error:
            if view is None:
                raise
            trouble = f"the engine cannot be reached: {error}"
        yield view, trouble
        number += 1
        if number == count:
            return
        time.sleep(every)


def _look(client: Client, prefix: str, heat: Heat) -> View:
    claims = client.inspect(prefix)
    holding = any(claim.holding for claim in claims if not claim.granted)
    circles = client.deadlocks() if holding else []  # only waiters that hold locks can deadlock
    return View(claims, heat.look(claims, time.monotonic()), circles)


def _show(title: str, looks: Iterator[tuple[View, str]]) -> None:
    paper = console()
    # Look once before switching to the full screen, so that an error is reported like any other.
    view, trouble = next(looks)
    drawn = screen(_dated(title), view, trouble, paper.size)
    if not paper.is_terminal:  # a pipe or a file: print each look below the last one
        paper.print(drawn)
        for view, trouble in looks:
            paper.print(screen(_dated(title), view, trouble, paper.size))
        return
    with Live(drawn, console=paper, screen=True, auto_refresh=False) as live:
        for view, trouble in looks:
            live.update(screen(_dated(title), view, trouble, paper.size), refresh=True)


def _dated(title: str) -> str:
    """Return the title with the time of the look.

    A server that does not answer delays the next look by seconds, and the time shows that.
    """
    return f"{time.strftime(' %H:%M:%S')} {title}"


def _fields(view: View) -> dict[str, object]:
    return {
        "at": round(time.time(), 3),
        "claims": [fields(claim) for claim in view.claims],
        "hot": [hot._asdict() for hot in view.hot],
        "waits": [
            {"waiting": waiter.id, "holder": holder.id}
            for waiter, holder in Graph(view.claims).edges()
        ],
        "deadlocks": [[tie.waiting.id for tie in circle] for circle in view.circles],
    }
