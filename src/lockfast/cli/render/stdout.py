"""What commands print: tables for people, and one JSON object per line for programs."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Annotated

import typer
from rich.console import Console, RenderableType

WIDE = 240  # columns where nobody looks: a table in a pipe is cut nowhere

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object per line, for programs.")]


def console() -> Console:
    """Make a console for standard output, as wide as the terminal if it is one.

    Without markup: a lock may be called `invoice:[/42]`.
    """
    width = None if sys.stdout.isatty() else WIDE
    return Console(highlight=False, markup=False, emoji=False, width=width)


def show(what: RenderableType) -> None:
    """Print for people."""
    _printed(lambda: console().print(what))


def tell(fields: Mapping[str, object]) -> None:
    """Print for programs."""
    _printed(lambda: sys.stdout.write(json.dumps(fields) + "\n"))


def _printed(work: Callable[[], object]) -> None:
    """Print at once. Whoever read us may have had enough: `lockfast ls | head`."""
    try:
        work()
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for Python's own flush
        raise typer.Exit(0) from None
