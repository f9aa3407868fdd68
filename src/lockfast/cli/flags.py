"""Commands whose `--help` shows a flag without a value: Typer writes `<bool>` behind each."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption


class FlaggedCommand(TyperCommand):
    """A command."""

    def get_params(self, ctx: typer.Context) -> list[Any]:  # type: ignore[override]  # Typer's Context is the only one there is
        """Return its parameters, also the `--help` that Typer adds."""
        return _bare(super().get_params(ctx))


class FlaggedGroup(TyperGroup):
    """The commands together."""

    def get_params(self, ctx: typer.Context) -> list[Any]:  # type: ignore[override]  # Typer's Context is the only one there is
        """Return its parameters, also those that Typer adds."""
        return _bare(super().get_params(ctx))


def _bare(params: list[Any]) -> list[Any]:
    for each in params:
        if isinstance(each, TyperOption) and each.is_flag:
            each.metavar = ""
    return params
