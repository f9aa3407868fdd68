"""The engine of the demo: a Redis server that it starts itself, or its own memory."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from lockfast.cli.demo.die_with_parent import leashed
from lockfast.cli.demo.memory_server import Server

PATIENCE = 15.0  # seconds for a server to start


@contextmanager
def redis(folder: Path) -> Iterator[str]:
    """Run a redis-server without persistence, and yield its URL."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
    with (folder / "redis.log").open("wb") as log:
        server = subprocess.Popen(  # noqa: S603  # with the options above
            leashed("redis-server", *options),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            process_group=0,  # so that Ctrl-C reaches only the demo, which then ends its server
        )
    try:
        _await(server, port)
        yield f"redis://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


def _await(server: subprocess.Popen[bytes], port: int) -> None:
    end = time.monotonic() + PATIENCE
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1.0).close()
        except OSError as error:
            if server.poll() is not None or time.monotonic() > end:
                raise ValueError("redis-server does not start here: try --memory") from error
            time.sleep(0.02)
        else:
            return


@contextmanager
def memory(folder: Path) -> Iterator[str]:
    """Serve a memory engine in this process, and yield its URL."""
    server = Server(folder)
    try:
        yield server.url
    finally:
        server.close()


def has_redis() -> bool:
    """Return whether redis-server and lockfast's driver for it are installed."""
    return shutil.which("redis-server") is not None and find_spec("hiredis") is not None
