"""Where the engine is: the global option --url, and a client for it."""

from __future__ import annotations

from typing import Annotated

import typer

import lockfast
from lockfast.cli.codes import Misconfigured

Url = Annotated[
    str | None,
    typer.Option(
        "--url", envvar="LOCKFAST_URL", metavar="URL", help="The engine: redis://localhost:6379"
    ),
]


def connect(context: typer.Context) -> lockfast.Client:
    """Make a client for the engine that the command line names. Nothing is opened before use."""
    url = context.obj
    if not url:
        raise Misconfigured("no engine: say --url redis://localhost:6379, or set LOCKFAST_URL")
    try:
        return lockfast.connect(url)
    except (ValueError, ImportError) as error:
        raise Misconfigured(str(error)) from error
