"""The global options --url and --url-file, and the client that a command makes from them."""

from __future__ import annotations

from typing import Annotated, cast

import typer

import lockfast
from lockfast.cli.exit_codes import Misconfigured
from lockfast.engines import system
from lockfast.show.address import named
from lockfast.url import from_file, parse

Url = Annotated[
    str | None,
    typer.Option(
        "--url",
        envvar="LOCKFAST_URL",
        metavar="URL",
        help="The address of the engine, such as redis://localhost:6379.",
    ),
]


UrlFile = Annotated[
    str | None,
    typer.Option(
        "--url-file",
        envvar="LOCKFAST_URL_FILE",
        metavar="PATH",
        help="A file that contains the URL. `ps` does not show the password in it.",
    ),
]


def chosen(context: typer.Context, url: str | None, path: str | None) -> str | None:
    """Return the engine's URL, from --url or --url-file.

    An option on the command line wins over the environment, and LOCKFAST_URL over
    LOCKFAST_URL_FILE.
    """
    typed = _typed(context)
    if len(typed) > 1:
        raise typer.BadParameter("use either --url or --url-file, not both")
    if path and (not url or "url_file" in typed):
        try:
            return from_file(path)
        except ValueError as error:
            raise Misconfigured(str(error)) from error
    return url


def instead(context: typer.Context, url: str | None, configured: str | None = None) -> None:
    """Replace the engine's URL by the argument of a command, or else by the one in its
    configuration, which wins over the environment.
    """
    typed = _typed(cast("typer.Context", context.find_root()))
    if url is not None and typed:
        raise typer.BadParameter("write the URL before the command or behind it, not both")
    if url is not None:
        context.obj = url
    elif configured is not None and not typed:
        context.obj = configured


def _typed(context: typer.Context) -> set[str]:
    """Return which options for the URL are on the command line."""
    return {
        name
        for name in ("url", "url_file")
        if (source := context.get_parameter_source(name)) is not None
        and source.name == "COMMANDLINE"
    }


def connect(context: typer.Context) -> lockfast.Client:
    """Return a client for the engine that the command line names. It connects on first use."""
    url = context.obj
    if not url:
        raise Misconfigured(
            "no engine: write --url redis://localhost:6379 before the command, or set LOCKFAST_URL"
        )
    try:
        return lockfast.connect(url)
    except (ValueError, ImportError) as error:
        raise Misconfigured(str(error)) from error


def connects_to_engine(context: typer.Context) -> None:
    """Raise `ValueError` if the URL is that of the service, for a command that cannot use it.

    LOCKFAST_URL may be set for clients of the service. Then `serve` would serve itself.
    """
    if system(parse(context.obj)) == "lockfast":
        raise ValueError(
            f"{context.info_name} needs the URL of the engine itself, not that of the service"
        )


def address(context: typer.Context) -> str:
    """Return the scheme and the hosts of the engine's URL, without its secrets."""
    return named(parse(context.obj))
