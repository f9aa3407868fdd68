"""Typer commands whose `--help` shows flags without the `<bool>` that Typer writes after each."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption


class FlaggedCommand(TyperCommand):
    """A command whose `--help` shows its flags without `<bool>`."""

    def get_params(self, ctx: typer.Context) -> list[Any]:  # type: ignore[override]  # Typer's Context is the only one there is
        """Return the command's parameters, including the `--help` that Typer adds."""
        return _bare(super().get_params(ctx))


class FlaggedGroup(TyperGroup):
    """The group of all commands, whose `--help` shows its flags without `<bool>`."""

    def get_params(self, ctx: typer.Context) -> list[Any]:  # type: ignore[override]  # Typer's Context is the only one there is
        """Return the group's parameters, including those that Typer adds."""
        return _bare(super().get_params(ctx))


def _bare(params: list[Any]) -> list[Any]:
    for each in params:
        if isinstance(each, TyperOption) and each.is_flag:
            each.metavar = ""
    return params
