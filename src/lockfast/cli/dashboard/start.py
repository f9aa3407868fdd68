"""Opens the port of a dashboard, serves it there, and says where it is."""

from __future__ import annotations

import tempfile
import threading
import webbrowser
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lockfast.cli.exit_codes import Misconfigured
from lockfast.service.binding import bind, is_private

if TYPE_CHECKING:
    from lockfast.aio import AsyncClient
    from lockfast.cli.dashboard.server import Server

NOT_LOCAL = (
    "other machines could connect to {host}, without TLS. `lockfast web` is for this machine: "
    "reach it through `ssh -L`, or mount lockfast.web.app in your own application"
)


def serve(  # noqa: PLR0913  # what the options of the commands say
    client: AsyncClient | str,
    host: str,
    port: int,
    *,
    allow_break: bool,
    say: Callable[[str], object],
    opens: bool = False,
    running: Callable[[Server], object] = bool,
) -> None:
    """Serve the dashboard of an engine until a signal ends it.

    `say`: gets the link when browsers can connect. `running`: gets the server then.
    Raises `Misconfigured` if the extra is missing or the port cannot be opened.
    """
    try:
        from lockfast import web  # noqa: PLC0415  # the extra may be missing
        from lockfast.cli.dashboard.login import Login  # noqa: PLC0415
        from lockfast.cli.dashboard.server import Server  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "lockfast":
            raise
        raise Misconfigured(
            f"the dashboard needs {error.name}: pip install 'lockfast[cli,web]'"
        ) from error
    try:
        if not is_private(host, port):
            raise ValueError(NOT_LOCAL.format(host=host))
        sockets = bind(host, port)
    except ValueError as error:
        raise Misconfigured(str(error)) from error
    name = f"[{host}]" if ":" in host else host
    link = f"http://{name}:{sockets[0].getsockname()[1]}/"
    app: Any
    if allow_break:
        login = Login(sockets[0].getsockname()[1])
        app = login.before(web.app(client, resolve=login.resolve))
        link += login.link
    else:
        app = web.app(client)
    with ExitStack() as stack:
        for each in sockets:
            stack.enter_context(each)

        def ready() -> None:
            say(link)
            running(server)
            if opens:
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="lockfast-web-"))
                _open(link, Path(folder))

        server = Server(app, ready)
        server.run(sockets)


def _open(link: str, folder: Path) -> None:
    """Open the browser, at a file that leads to the link: `ps` shows what a browser is given.

    In a thread, because a browser in a terminal runs until the user ends it.
    """
    page = folder / "open.html"  # only this user can read the folder
    page.write_text(f'<!doctype html><meta http-equiv="refresh" content="0; url={link}">', "ascii")
    threading.Thread(target=webbrowser.open, args=(page.as_uri(),), daemon=True).start()
