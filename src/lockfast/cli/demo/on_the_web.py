"""`lockfast demo --web`: worker processes that use locks of all kinds, and a dashboard of them."""

from __future__ import annotations

import asyncio
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

import lockfast
from lockfast.cli.dashboard.start import serve
from lockfast.cli.demo import memory_server
from lockfast.cli.demo.staff import Staff, disturb
from lockfast.cli.demo.temporary_engine import redis
from lockfast.cli.render.stdout import copyable, show

if TYPE_CHECKING:
    from lockfast.aio import AsyncClient
    from lockfast.cli.dashboard.server import Server


def play(folder: Path, *, in_memory: bool, seconds: float | None) -> None:
    """Run until a signal, or for so many seconds."""
    over = threading.Event()
    with ExitStack() as stack:
        shown: AsyncClient | str
        if in_memory:
            engine = memory_server.Server(folder)
            stack.callback(engine.close)
            url, shown = engine.url, engine.client()
            client = memory_server.connect(url)
        else:
            url = shown = stack.enter_context(redis(folder))
            client = lockfast.connect(url)
        stack.enter_context(client)
        staff = stack.enter_context(Staff(url))
        disturbing = threading.Thread(target=disturb, args=(client, staff, over))

        def running(server: Server) -> None:
            disturbing.start()
            stack.callback(disturbing.join)
            stack.callback(over.set)
            if seconds is not None:
                asyncio.get_running_loop().call_later(seconds, server.end)

        def told(link: str) -> None:
            show(Text("Open this link, which works once. Ctrl-C ends the demo."))
            copyable(link)

        serve(shown, "127.0.0.1", 0, allow_break=True, say=told, running=running)
