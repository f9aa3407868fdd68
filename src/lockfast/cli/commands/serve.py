"""`lockfast serve`: run a replica of the service, in front of an engine."""

from __future__ import annotations

import os
import socket
from typing import Annotated

import typer

from lockfast.cli.engine_url import address, connect, connects_to_engine, instead
from lockfast.cli.exit_codes import Misconfigured
from lockfast.cli.render.stderr import say, show_log

EngineUrl = Annotated[
    str | None,
    typer.Argument(
        metavar="URL",
        show_default=False,
        help="The address of the engine. The default is that of --url or LOCKFAST_URL.",
    ),
]
Host = Annotated[
    str,
    typer.Option(
        "--host", metavar="ADDRESS", help="The loopback address on which it accepts connections."
    ),
]
Port = Annotated[
    int,
    typer.Option("--port", metavar="N", min=1, max=65_535, help="The port of that address."),
]


def serve(
    context: typer.Context,
    url: EngineUrl = None,
    *,
    host: Host = "127.0.0.1",
    port: Port = 7420,
) -> None:
    """Share a few connections to an engine with all programs of this machine.

    They connect with the URL lockfast://127.0.0.1:7420, and need neither the password nor the
    driver of the engine. The command runs one replica of the service. A replica keeps no locks
    itself, so you can run several for one engine, each on a port of its own. Every program on this
    machine can use all locks. Other machines cannot connect.

    TERM and Ctrl-C end the command. It first answers the requests that are under way, and asks its
    clients to connect to another replica. There they keep their locks, except on ZooKeeper.

    `ps` shows the arguments of a command. If the URL has a password, use --url-file or
    LOCKFAST_URL. The command needs the extra `service` and that of the engine.

    For example:
      lockfast serve redis://localhost:6379
      lockfast serve postgresql://localhost/app --port 7421
      lockfast --url-file /run/secrets/lockfast-url serve

    Exit codes:
      0   TERM or Ctrl-C ended it
      64  the address is not a loopback address, or the URL is that of the service
      78  the URL is wrong, an extra is not installed, or the port is in use
    """
    instead(context, url)
    connect(context).close()  # raises if the URL is wrong, and sends nothing
    connects_to_engine(context)
    try:
        from lockfast.service import load  # noqa: PLC0415  # for this command only
        from lockfast.service.access import is_loopback  # noqa: PLC0415  # for this command only

        run = load().serve  # raises before the command says that it serves
        if is_loopback(host):  # else `run` refuses the address
            _bind(host, port)
            say(_said(context, f"[{host}]:{port}" if ":" in host else f"{host}:{port}"))
        show_log()
        run(context.obj, host=host, port=port)
    except ImportError as error:
        raise Misconfigured(str(error)) from error


def _bind(host: str, port: int) -> None:
    """Raise `Misconfigured` if the port cannot be used. uvicorn would find that out only after this
    command has said that it serves, and would end the process with a code of its own.
    """
    try:
        for family, *_, where in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            socket.create_server(where[:2], family=family).close()
    except OSError as error:
        why = os.strerror(error.errno or 0)  # the error's own text repeats the address
        raise Misconfigured(f"port {port} of {host} cannot be used: {why}") from error


def _said(context: typer.Context, where: str) -> str:
    return (
        f"serving {address(context)} at {where}, to every program on this machine. "
        f"Connect with LOCKFAST_URL=lockfast://{where}"
    )
