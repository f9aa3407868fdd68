"""Makes the text of `--help` from a command's docstring: wraps paragraphs, but not examples."""

from __future__ import annotations

from collections.abc import Callable
from inspect import cleandoc

from rich.markup import escape


def manual(command: Callable[..., object]) -> str:
    """Return the docstring of a command in the form that Typer needs.

    Each paragraph becomes one line. If its second line is indented, it is a list under a heading,
    and keeps its lines.
    """
    return "\n\n".join(_set(part) for part in cleandoc(command.__doc__ or "").split("\n\n"))


def _set(paragraph: str) -> str:
    head, *rest = paragraph.split("\n")
    if rest and rest[0].startswith("  "):
        return "\n".join([f"[bold]{escape(head)}[/bold]", *map(escape, rest)])
    return escape(" ".join([head, *rest]))
