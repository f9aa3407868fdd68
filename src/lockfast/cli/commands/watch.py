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
from lockfast.cli.render.claims import fields
from lockfast.cli.render.graph import Graph
from lockfast.cli.render.hot_names import Heat
from lockfast.cli.render.screen import View, screen
from lockfast.cli.render.stdout import Json, console, tell

Every = Annotated[
    float, typer.Option("--every", metavar="SECONDS", min=0.1, help="Seconds between two looks.")
]
Count = Annotated[
    int | None, typer.Option("--count", metavar="N", min=1, help="End after N looks.")
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

    The most waited for stand at the top. A bar is what is left of a lease before it must be
    renewed: a live holder renews it when a third has gone, so a red one is in trouble. While the
    engine cannot be reached, the last state stays on the screen, and says so. Ctrl-C ends it.

    For example:
      lockfast watch                      everything, every second
      lockfast watch invoice: --every 5   names that begin with invoice:
      lockfast watch --json --count 1     one look, for a program

    Exit codes:
      0   it was ended by Ctrl-C, or after --count looks
      69  the engine cannot be reached when it starts
      78  the engine refuses us: a wrong password, no rights, no schema
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
    """Look again and again. Trouble after the first look is told beside what was seen last."""
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
            trouble = f"not reached: {error}"
        yield view, trouble
        number += 1
        if number == count:
            return
        time.sleep(every)


def _look(client: Client, prefix: str, heat: Heat) -> View:
    claims = client.inspect(prefix)
    holding = any(claim.holding for claim in claims if not claim.granted)
    circles = client.deadlocks() if holding else []  # whoever holds nothing is in no circle
    return View(claims, heat.look(claims, time.monotonic()), circles)


def _show(title: str, looks: Iterator[tuple[View, str]]) -> None:
    paper = console()
    # Before the screen is taken: what goes wrong at first is told like any error.
    view, trouble = next(looks)
    drawn = screen(_dated(title), view, trouble, paper.size)
    if not paper.is_terminal:  # a pipe or a file: each look below the last one, at once
        paper.print(drawn)
        for view, trouble in looks:
            paper.print(screen(_dated(title), view, trouble, paper.size))
        return
    with Live(drawn, console=paper, screen=True, auto_refresh=False) as live:
        for view, trouble in looks:
            live.update(screen(_dated(title), view, trouble, paper.size), refresh=True)


def _dated(title: str) -> str:
    """Add the time of the look: a server that does not answer holds the next one up for seconds."""
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
