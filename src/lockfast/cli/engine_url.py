"""Where the engine is: the global option --url, and a client for it."""

from __future__ import annotations

from typing import Annotated

import typer

import lockfast
from lockfast.cli.exit_codes import Misconfigured
from lockfast.url import from_file, parse

Url = Annotated[
    str | None,
    typer.Option(
        "--url", envvar="LOCKFAST_URL", metavar="URL", help="The engine: redis://localhost:6379"
    ),
]


UrlFile = Annotated[
    str | None,
    typer.Option(
        "--url-file",
        envvar="LOCKFAST_URL_FILE",
        metavar="PATH",
        help="A file with that URL: a password in it is not seen by `ps`.",
    ),
]


def chosen(context: typer.Context, url: str | None, path: str | None) -> str | None:
    """Choose the URL: the command line counts more than the environment."""
    typed = {
        name
        for name in ("url", "url_file")
        if (source := context.get_parameter_source(name)) is not None
        and source.name == "COMMANDLINE"
    }
    if len(typed) > 1:
        raise typer.BadParameter("use either --url or --url-file, not both")
    if path and (not url or "url_file" in typed):
        try:
            return from_file(path)
        except ValueError as error:
            raise Misconfigured(str(error)) from error
    return url


def connect(context: typer.Context) -> lockfast.Client:
    """Make a client for the engine that the command line names. Nothing is opened before use."""
    url = context.obj
    if not url:
        raise Misconfigured(
            "no engine: say --url redis://localhost:6379 before the command, or set LOCKFAST_URL"
        )
    try:
        return lockfast.connect(url)
    except (ValueError, ImportError) as error:
        raise Misconfigured(str(error)) from error


def address(context: typer.Context) -> str:
    """Write where the engine is, without what is secret in the URL."""
    target = parse(context.obj)
    hosts = ",".join(host if port is None else f"{host}:{port}" for host, port in target.hosts)
    return f"{target.scheme}://{hosts}"
