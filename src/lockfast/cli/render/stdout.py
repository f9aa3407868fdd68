"""Prints the output of commands: tables for people, one JSON object per line for programs."""

from __future__ import annotations

import json
import os
import sys
import textwrap
from collections.abc import Callable, Mapping
from typing import Annotated

import typer
from rich.console import Console, RenderableType
from rich.text import Text

WIDE = 240  # columns if stdout is not a terminal, so that a table in a pipe is not cut off

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object per line, for programs.")]


def console() -> Console:
    """Return a console for standard output, as wide as the terminal if it is one.

    Markup is off, because a lock may be called `invoice:[/42]`.
    """
    width = None if sys.stdout.isatty() else WIDE
    return Console(highlight=False, markup=False, emoji=False, width=width)


def show(what: RenderableType) -> None:
    """Print text or a table for people."""
    _printed(lambda: console().print(what))


def labelled(label: str, text: str) -> None:
    """Print a label and a text for people. The lines after the first begin below the text."""
    out = console()
    room = max(out.width - len(label), 20)
    lines = textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False)
    show(Text(label + f"\n{' ' * len(label)}".join(lines)))


def copyable(line: str) -> None:
    """Print a line that people copy, so that it is never folded."""
    _printed(lambda: sys.stdout.write(f"{line}\n"))


def tell(fields: Mapping[str, object]) -> None:
    """Print one line of JSON for programs."""
    _printed(lambda: sys.stdout.write(json.dumps(fields) + "\n"))


def _printed(work: Callable[[], object]) -> None:
    """Print and flush. Exit with 0 if the reader has closed the pipe: `lockfast ls | head`."""
    try:
        work()
        sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes stdout once more when it exits, and would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(0) from None
