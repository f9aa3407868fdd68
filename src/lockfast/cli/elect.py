"""`lockfast elect`: run a command while leading, and again after a loss."""

from __future__ import annotations

from typing import Annotated

import typer

from lockfast.cli.wrapped import Command


def elect(
    context: typer.Context,
    name: Annotated[str, typer.Argument(show_default=False)],
    command: Command,
) -> int:
    """Run a command for as long as this process leads NAME."""
    raise NotImplementedError(f"{context.obj} {name} {command}")
