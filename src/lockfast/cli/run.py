"""`lockfast run`: run a command while holding a lock."""

from __future__ import annotations

from typing import Annotated

import typer

from lockfast.cli.wrapped import Command


def run(
    context: typer.Context,
    name: Annotated[str, typer.Argument(show_default=False)],
    command: Command,
) -> int:
    """Run a command while holding the lock NAME."""
    raise NotImplementedError(f"{context.obj} {name} {command}")
