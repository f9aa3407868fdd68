"""`lockfast run`: run a command while holding a lock."""

from __future__ import annotations

from pathlib import PurePath
from typing import Annotated

import typer

from lockfast.cli.dash_dash import Command
from lockfast.cli.engine_url import connect
from lockfast.cli.exit_codes import Code, of_signal
from lockfast.cli.options import AtMost, Freeze, Grace, KeepUrl, Name, Ttl
from lockfast.cli.render.stderr import say
from lockfast.cli.supervise.plan import Plan
from lockfast.cli.supervise.run_under_lease import Outcome
from lockfast.cli.supervise.setup import leave, staged
from lockfast.cli.supervise.signals import Interrupted
from lockfast.errors import NotAcquired


def run(  # noqa: PLR0913  # each is an option that users look for
    context: typer.Context,
    name: Name,
    command: Command,
    *,
    nonblock: Annotated[
        bool, typer.Option("--nonblock", "-n", help="Do not wait if the lock is held.")
    ] = False,
    timeout: Annotated[
        float | None,
        typer.Option(
            "--timeout",
            "-w",
            metavar="SECONDS",
            help="How many seconds to wait for the lock. By default, wait for ever.",
        ),
    ] = None,
    conflict: Annotated[
        int,
        typer.Option(
            "--conflict-exit-code",
            "-E",
            metavar="CODE",
            min=0,
            max=255,
            help="Exit with this code instead of 75 if the lock is held. With 0, print nothing.",
        ),
    ] = Code.BUSY,
    ttl: Ttl = 30.0,
    slots: Annotated[
        int | None,
        typer.Option(
            "--slots",
            metavar="N",
            min=1,
            help="Use a semaphore: at most N commands run at once, on all machines.",
        ),
    ] = None,
    at_least: Annotated[
        float,
        typer.Option(
            "--at-least",
            metavar="SECONDS",
            help="Keep the lock for at least this long, because the clocks of machines differ. "
            "If the command ends earlier, the lock stays taken until its ttl ends.",
        ),
    ] = 0.0,
    at_most: AtMost = None,
    freeze: Freeze = False,
    grace: Grace = None,
    keep_url: KeepUrl = False,
    purpose: Annotated[
        str | None,
        typer.Option(
            "--purpose",
            metavar="TEXT",
            help="A text that `who` and `ls` show. The default is the name of the command.",
        ),
    ] = None,
) -> int:
    """Run a command while holding the lock NAME, and end it before another process can acquire it.

    The command gets LOCKFAST_NAME and LOCKFAST_TOKEN, the fencing token, in its environment. It has
    its own process group, and lockfast passes signals on to it. When the command ends, lockfast
    ends all processes that it has left running, and then releases the lock.

    If lockfast cannot renew the lease, it sends TERM to the command and all its descendants, and
    KILL after the grace, before the lease ends.

    For example:
      lockfast run nightly -- make report
      lockfast run nightly -n -E 0 -- make report   do nothing if it runs already
      lockfast run build --slots 4 -- make          four at once, on all machines

    Exit codes:
      75   the lock was busy; -E changes this code
      76   the lease was lost, and lockfast ended the command
      69   the engine cannot be reached
      64   the command line is wrong
      78   the configuration is wrong, or the engine rejects the request
      70   the watchdog of the command was killed
      126  the command cannot be run, and 127: it does not exist
      Otherwise that of the command, or 128 + n if signal n ended it.
    """
    if nonblock and timeout is not None:
        raise typer.BadParameter("use either -n or -w, not both")
    if slots is not None and at_least:
        raise typer.BadParameter("--at-least cannot be used with --slots")
    plan = Plan.of(ttl, grace)
    if purpose is None:
        purpose = PurePath(command[0]).name  # not the arguments: they may hold a password
    wait = 0.0 if nonblock else timeout
    try:
        with (
            staged(command, plan, freeze=freeze, keep_url=keep_url) as stage,
            connect(context) as client,
        ):
            lock = (
                client.lock(
                    name,
                    ttl=ttl,
                    timeout=wait,
                    purpose=purpose,
                    at_least=at_least,
                    at_most=at_most,
                )
                if slots is None
                else client.semaphore(
                    name, slots, ttl=ttl, timeout=wait, purpose=purpose, at_most=at_most
                )
            )
            outcome = stage.keep(stage.signals.wait_for(lock.acquire))
    except NotAcquired as error:
        if conflict:  # with -E 0 a busy lock is no failure, and cron would mail the message
            waited = f"after {error.waited:.3g} s" if wait else "now"
            say(
                f"{error.name!r} is busy {waited}, so the command was not run: held by "
                f"{error.holder}. To wait longer, use -w SECONDS. {error.reference()}"
            )
        return conflict
    except Interrupted as end:
        outcome = Outcome(of_signal(end.number), signal=end.number)
    return leave(outcome)
