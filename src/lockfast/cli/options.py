"""The argument NAME and the options that `run` and `elect` share."""

from __future__ import annotations

from typing import Annotated

import typer

from lockfast.cli.names import readable

Name = Annotated[
    str,
    typer.Argument(metavar="NAME", callback=readable, show_default=False, help="What is locked."),
]
Ttl = Annotated[
    float,
    typer.Option(
        "--ttl",
        metavar="SECONDS",
        help="How long the others wait if this machine dies. Until then the lease is renewed.",
    ),
]
AtMost = Annotated[
    float | None,
    typer.Option(
        "--at-most",
        metavar="SECONDS",
        help="Stop renewing the lease after this long. The command is ended before the lease is, "
        "at most one ttl later.",
    ),
]
Grace = Annotated[
    float | None,
    typer.Option(
        "--grace",
        metavar="SECONDS",
        help="From TERM to KILL when the lease cannot be kept: 5, or a sixth of a short ttl.",
    ),
]
Freeze = Annotated[
    bool,
    typer.Option(
        "--freeze", help="Stop the command while the lease has less than half of its ttl left."
    ),
]
KeepUrl = Annotated[
    bool,
    typer.Option("--keep-url", help="Leave LOCKFAST_URL in the command's environment."),
]
