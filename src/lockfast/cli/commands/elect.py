"""`lockfast elect`: run a command while leading, and again after a loss."""

from __future__ import annotations

import time
from functools import partial
from typing import Annotated

import typer

import lockfast
from lockfast.cli.dash_dash import Command
from lockfast.cli.engine_url import connect
from lockfast.cli.exit_codes import of_signal
from lockfast.cli.names import readable
from lockfast.cli.options import Freeze, Grace, KeepUrl, Name, Ttl
from lockfast.cli.render.stderr import say
from lockfast.cli.supervise.plan import Plan
from lockfast.cli.supervise.run_under_lease import Outcome
from lockfast.cli.supervise.setup import leave, staged
from lockfast.cli.supervise.signals import Interrupted, Signals
from lockfast.errors import EngineUnavailable

PAUSE = 1.0  # seconds before it campaigns again


def elect(  # noqa: PLR0913  # each is an option that users look for
    context: typer.Context,
    name: Name,
    command: Command,
    *,
    value: Annotated[
        str,
        typer.Option(
            "--value",
            metavar="TEXT",
            callback=readable,
            help="What the others should know of a leader.",
        ),
    ] = "",
    ttl: Ttl = 30.0,
    freeze: Freeze = False,
    grace: Grace = None,
    keep_url: KeepUrl = False,
) -> int:
    """Run a command for as long as this process leads NAME, and again when it leads again.

    Start it on every machine: one runs the command, the others wait. LOCKFAST_TOKEN is the term.
    A leader that cannot keep its lease has its command ended first, as `run` does, and campaigns
    again. A command that ends by itself ends lockfast too, with its exit code.
    """
    plan = Plan.of(ttl, grace)
    try:
        with (
            staged(command, plan, freeze=freeze, keep_url=keep_url) as stage,
            connect(context) as client,
        ):
            election = client.election(name, ttl=ttl)
            lost = True
            while lost:
                outcome = stage.keep(campaign(election, value, stage.signals))
                lost = outcome.lost and stage.can_go_on
    except Interrupted as end:
        outcome = Outcome(of_signal(end.number), signal=end.number)
    return leave(outcome)


def campaign(election: lockfast.Election, value: str, signals: Signals) -> lockfast.Lease:
    """Wait to lead, also through times in which the engine cannot be reached."""
    while True:
        try:
            return signals.wait_for(partial(election.campaign, value))
        except EngineUnavailable as error:
            say(f"the campaign for {election.name!r} goes on: {error}")
            signals.wait_for(partial(time.sleep, PAUSE))
