"""`lockfast elect`: run a command while this process leads, and again after a lost leadership."""

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
from lockfast.cli.options import AtMost, Freeze, Grace, KeepUrl, Name, Ttl
from lockfast.cli.render.stderr import say
from lockfast.cli.supervise.plan import Plan
from lockfast.cli.supervise.run_under_lease import Outcome
from lockfast.cli.supervise.setup import leave, staged
from lockfast.cli.supervise.signals import Interrupted, Signals
from lockfast.errors import EngineUnavailable

PAUSE = 1.0  # seconds before it campaigns again if the engine cannot be reached


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
            help="A text that all clients can read while this process leads, such as its address.",
        ),
    ] = "",
    ttl: Ttl = 30.0,
    at_most: AtMost = None,
    freeze: Freeze = False,
    grace: Grace = None,
    keep_url: KeepUrl = False,
) -> int:
    """Run a command for as long as this process leads NAME, and again when it leads again.

    Start it on every machine: one runs the command, the others wait. The command gets the term,
    which is the fencing token, as LOCKFAST_TOKEN in its environment. If the leader cannot keep its
    lease, lockfast ends the command before the lease expires, as `run` does, and campaigns again.
    When the command ends by itself, lockfast ends too, with the exit code of the command.

    For example:
      lockfast elect scheduler -- celery beat
      lockfast elect scheduler --value "$(hostname):8080" -- ./serve

    Exit codes:
      64   the command line is wrong
      78   the configuration is wrong, or the engine rejects the request
      70   the watchdog of the command was killed
      126  the command cannot be run, and 127: it does not exist
      Otherwise that of the command, or 128 + n if signal n ended it.
    """
    plan = Plan.of(ttl, grace)
    try:
        with (
            staged(command, plan, freeze=freeze, keep_url=keep_url) as stage,
            connect(context) as client,
        ):
            election = client.election(name, ttl=ttl, at_most=at_most)
            lost = True
            while lost:
                outcome = stage.keep(campaign(election, value, stage.signals))
                lost = outcome.lost and stage.can_go_on
    except Interrupted as end:
        outcome = Outcome(of_signal(end.number), signal=end.number)
    return leave(outcome)


def campaign(election: lockfast.Election, value: str, signals: Signals) -> lockfast.Lease:
    """Wait to become the leader; return the lease. Retry while the engine cannot be reached."""
    while True:
        try:
            return signals.wait_for(partial(election.campaign, value))
        except EngineUnavailable as error:
            say(f"the campaign for {election.name!r} failed, trying again: {error}")
            signals.wait_for(partial(time.sleep, PAUSE))
