"""The Typer app: registers every command, each a function in a module of its own, and runs it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from importlib import metadata
from typing import Annotated

import typer

from lockfast.cli.commands import (
    break_lock,
    deadlocks,
    demo,
    doctor,
    elect,
    install,
    ls,
    new_key,
    run,
    serve,
    watch,
    web,
    who,
)
from lockfast.cli.dash_dash import Wrapping
from lockfast.cli.engine_url import Url, UrlFile, chosen
from lockfast.cli.exit_codes import Code, code_of
from lockfast.cli.flags import FlaggedCommand, FlaggedGroup
from lockfast.cli.render.help_text import manual
from lockfast.cli.render.stderr import keep_log_quiet, say
from lockfast.cli.render.stdout import show
from lockfast.errors import LockfastError

app = typer.Typer(
    name="lockfast",
    cls=FlaggedGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Distributed locks: run a command under a lock, elect a leader, see who holds what.",
)
app.command("run", cls=Wrapping, help=manual(run.run))(run.run)
app.command("elect", cls=Wrapping, help=manual(elect.elect))(elect.elect)
SEEING: dict[str, Callable[..., int | None]] = {
    "ls": ls.ls,
    "who": who.who,
    "watch": watch.watch,
    "web": web.web,
    "break": break_lock.breaks,
    "deadlocks": deadlocks.deadlocks,
    "doctor": doctor.doctor,
    "install": install.install,
    "serve": serve.serve,
    "new-key": new_key.make,
    "demo": demo.demo,
}


def _version(asked: bool) -> None:  # noqa: FBT001  # as Typer calls it
    if asked:
        show(f"lockfast {metadata.version('lockfast')}")
        raise typer.Exit


Version = Annotated[
    bool,
    typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit."),
]
for name, command in SEEING.items():
    app.command(name, cls=FlaggedCommand, help=manual(command))(command)


@app.callback()
def common(
    context: typer.Context,
    url: Url = None,
    url_file: UrlFile = None,
    *,
    version: Version = False,  # noqa: ARG001  # its callback ends the program
) -> None:
    """Distributed locks: run a command under a lock, elect a leader, see who holds what."""
    context.obj = chosen(context, url, url_file)


def launch(argv: Sequence[str] | None = None) -> int:
    """Run a command line and return the exit code.

    A command returns its exit code, or None for 0. An error of lockfast prints one line to stderr
    and never a traceback, because people read the log of a cron job.
    """
    keep_log_quiet()
    try:
        code = app(args=argv, prog_name="lockfast", standalone_mode=False)
    except typer.TyperException as error:
        # Typer's words in front of our sentences. Empty if Typer has shown the help instead.
        if message := error.format_message().removeprefix("Invalid value: "):
            say(f"{message} {_hint(message)}".rstrip())
        return Code.USAGE
    except typer.Abort:
        return Code.USAGE
    except (LockfastError, ValueError) as error:
        say(str(error))
        return code_of(error)
    return int(code or Code.DONE)


def _hint(message: str) -> str:
    """Return a hint if the message says that --url or --url-file follows the command."""
    found = re.search(r"No such option: (--url(-file)?)\b", message)
    return f"Write it before the command: lockfast {found[1]} ... ls" if found else ""
