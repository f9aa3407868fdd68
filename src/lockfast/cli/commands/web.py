"""`lockfast web`: show the dashboard in a browser on this machine."""

from __future__ import annotations

from typing import Annotated

import typer

from lockfast.cli.dashboard.start import serve
from lockfast.cli.engine_url import address, connect
from lockfast.cli.render.stderr import say, show_log

Host = Annotated[
    str,
    typer.Option(
        "--host",
        metavar="ADDRESS",
        help="The address on which it accepts connections. Other machines cannot reach it.",
    ),
]
Port = Annotated[
    int,
    typer.Option("--port", metavar="N", min=0, max=65_535, help="Its port. 0 is any that is free."),
]
AllowBreak = Annotated[
    bool,
    typer.Option(
        "--allow-break",
        help="Break locks from the dashboard too. Only the browser that opens the link can use it.",
    ),
]
Open = Annotated[bool, typer.Option("--open", help="Open the browser.")]


def web(
    context: typer.Context,
    *,
    host: Host = "127.0.0.1",
    port: Port = 7422,
    allow_break: AllowBreak = False,
    opens: Open = False,
) -> None:
    """Show who holds which lock, who waits, and since when, in a browser.

    The command prints a link. The page is updated every second. The command changes nothing on the
    engine, and it answers this machine only. For a machine that you reach by ssh, forward the
    port: ssh -L 7422:127.0.0.1:7422 HOST.

    With --allow-break, the dashboard can break locks. Every user and every web page of this machine
    can send requests to a port. So the link then has a secret, which works once. The browser that
    opens the link keeps a cookie, and nobody else can use the dashboard, not even to look.

    It needs the extra `web` and that of the engine. For a dashboard that a team can use, mount
    lockfast.web.app in an application that knows its users.

    For example:
      lockfast web
      lockfast web --open --allow-break
      lockfast --url postgresql://localhost/app web --port 8080

    Exit codes:
      0   TERM or Ctrl-C ended it
      64  an option is wrong
      78  the URL is wrong, an extra is missing, the port is in use, or other
          machines could connect
    """
    connect(context).close()  # raises if the URL is wrong, and sends nothing
    show_log()

    def told(link: str) -> None:
        said = f"the dashboard of {address(context)}"
        # The link is at the end, so that nothing behind it is copied with it.
        say(f"open {said}. The link works once. {link}" if allow_break else f"{said} is at {link}")

    serve(context.obj, host, port, allow_break=allow_break, say=told, opens=opens)
