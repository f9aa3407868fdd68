"""Commands that run another command, which must follow `--`: `run` and `elect`."""

from __future__ import annotations

from typing import Annotated

import typer

from lockfast.cli.flags import FlaggedCommand

Command = Annotated[
    list[str], typer.Argument(metavar="-- COMMAND [ARGUMENT]...", show_default=False)
]


class Wrapping(FlaggedCommand):
    """A Typer command that requires `--`.

    Without it, Typer would take the -n in `run NAME tail -n 5` for an option of lockfast.
    """

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]  # Typer's Context is the only one there is
        """Parse the arguments, or raise `BadParameter` if `--` is missing."""
        asks_for_help = not args or "--help" in args
        if "--" not in args and not asks_for_help and not ctx.resilient_parsing:
            raise typer.BadParameter("put -- in front of the command: lockfast run NAME -- COMMAND")
        return super().parse_args(ctx, args)
