"""The text of `--help`: a command's docstring. Paragraphs flow, examples stand as they are."""

from __future__ import annotations

from collections.abc import Callable
from inspect import cleandoc

from rich.markup import escape


def manual(command: Callable[..., object]) -> str:
    """Return the docstring as Typer wants it.

    A paragraph with indented lines is a list under a heading, and keeps its lines.
    """
    return "\n\n".join(_set(part) for part in cleandoc(command.__doc__ or "").split("\n\n"))


def _set(paragraph: str) -> str:
    head, *rest = paragraph.split("\n")
    if rest and rest[0].startswith("  "):
        return "\n".join([f"[bold]{escape(head)}[/bold]", *map(escape, rest)])
    return escape(" ".join([head, *rest]))
