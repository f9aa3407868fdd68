"""The argument NAME and the options that `run` and `elect` share."""

from __future__ import annotations

from typing import Annotated

import typer

from lockfast.cli.names import readable

Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME", callback=readable, show_default=False, help="The name of the lock."
    ),
]
Ttl = Annotated[
    float,
    typer.Option(
        "--ttl",
        metavar="SECONDS",
        help="How long the lock stays taken after this machine crashes. lockfast renews it "
        "automatically while the command runs.",
    ),
]
AtMost = Annotated[
    float | None,
    typer.Option(
        "--at-most",
        metavar="SECONDS",
        help="Stop renewing the lease after this long. lockfast ends the command before the lease "
        "expires, at most one ttl later.",
    ),
]
Grace = Annotated[
    float | None,
    typer.Option(
        "--grace",
        metavar="SECONDS",
        help="Seconds from TERM to KILL if lockfast cannot renew the lease. The default is 5, or a "
        "sixth of the ttl if that is less.",
    ),
]
Freeze = Annotated[
    bool,
    typer.Option(
        "--freeze", help="Pause the command while the lease has less than half of its ttl left."
    ),
]
KeepUrl = Annotated[
    bool,
    typer.Option("--keep-url", help="Leave LOCKFAST_URL in the command's environment."),
]
