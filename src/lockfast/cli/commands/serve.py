"""`lockfast serve`: run a replica of the service, in front of an engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from lockfast.cli.engine_url import address, connect, connects_to_engine, instead
from lockfast.cli.exit_codes import Misconfigured
from lockfast.cli.render.stderr import say, show_log
from lockfast.service.binding import is_private
from lockfast.service.config import MOST_WORKERS, Config
from lockfast.service.config_file import read

EVERYWHERE = {"0.0.0.0", "::"}  # noqa: S104  # they need TLS and keys
EngineUrl = Annotated[
    str | None,
    typer.Argument(
        metavar="URL",
        show_default=False,
        help="The address of the engine. The default is that of --url, --config or LOCKFAST_URL.",
    ),
]
ConfigFile = Annotated[
    str | None,
    typer.Option("--config", metavar="FILE", help="A TOML file with these options."),
]
Check = Annotated[
    bool, typer.Option("--check", help="Check the configuration and its files, and serve nothing.")
]
Host = Annotated[
    str | None,
    typer.Option(
        "--host",
        metavar="ADDRESS",
        help="The address on which it accepts connections. One that other machines can reach needs "
        "TLS and API keys. The default is 127.0.0.1.",
    ),
]
Port = Annotated[
    int | None,
    typer.Option(
        "--port",
        metavar="N",
        min=1,
        max=65_535,
        help="The port of that address. The default is 7420.",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        metavar="N",
        min=1,
        max=MOST_WORKERS,
        help="How many processes serve. One uses one core. The default is 1.",
    ),
]
Certificate = Annotated[
    str | None,
    typer.Option(
        "--ssl-certfile",
        metavar="FILE",
        help="The certificate for TLS, and those of its authorities, in PEM format.",
    ),
]
PrivateKey = Annotated[
    str | None,
    typer.Option(
        "--ssl-keyfile",
        metavar="FILE",
        help="The key of the certificate. The default is that it is in the same file.",
    ),
]
KeysFile = Annotated[
    str | None,
    typer.Option(
        "--keys-file", metavar="FILE", help="The API keys, as lines that `new-key` prints."
    ),
]
HandleKeyFile = Annotated[
    str | None,
    typer.Option(
        "--handle-key-file",
        metavar="FILE",
        help="The keys that sign the handles of HTTP clients, one a line. All replicas need the "
        "same ones. The default is a random key in each replica.",
    ),
]
BehindProxy = Annotated[
    bool,
    typer.Option(
        "--behind-proxy",
        help="A proxy in front of the service does TLS, and nobody else can reach the address.",
    ),
]

SigningKeyFile = Annotated[
    str | None,
    typer.Option(
        "--signing-key-file",
        metavar="FILE",
        help="The private keys, for Ed25519 in PEM, that sign tokens for clients that ask for it.",
    ),
]
UnixSocket = Annotated[
    str | None,
    typer.Option(
        "--uds",
        metavar="PATH",
        help="Listen on a unix socket instead of an address. A proxy can be in front of it.",
    ),
]
AuditFile = Annotated[
    str | None,
    typer.Option(
        "--audit-file",
        metavar="FILE",
        help="Log there who acquires, releases, loses and breaks locks, and what is denied. - is "
        "standard output.",
    ),
]
Web = Annotated[
    bool,
    typer.Option(
        "--web", help="Serve the dashboard too, at the path /web. It needs the extra web."
    ),
]


def serve(  # noqa: PLR0913  # one for each option
    context: typer.Context,
    url: EngineUrl = None,
    *,
    config: ConfigFile = None,
    check: Check = False,
    host: Host = None,
    port: Port = None,
    workers: Workers = None,
    ssl_certfile: Certificate = None,
    ssl_keyfile: PrivateKey = None,
    keys_file: KeysFile = None,
    handle_key_file: HandleKeyFile = None,
    signing_key_file: SigningKeyFile = None,
    behind_proxy: BehindProxy = False,
    uds: UnixSocket = None,
    audit_file: AuditFile = None,
    web: Web = False,
) -> None:
    """Share a few connections to an engine with many programs.

    They connect with the URL lockfast://127.0.0.1:7420, or send HTTP requests to the same port.
    They need neither the password nor the driver of the engine. The command runs one replica of the
    service. A replica keeps no locks itself, so you can run several for one engine.

    With --workers, it runs several replicas at one address. It starts a worker again that dies.

    Without options, only programs on this machine can connect, and all of them can use all locks.
    For another address, give it a certificate and API keys. The table [subjects] of --config says
    which locks each key may use. Without it, a client with any of the keys can use all locks.

    HUP reloads the keys, rights and certificate. It ends the connections whose key was removed.
    TERM and Ctrl-C end the command. It first answers the requests that are under way, and asks its
    clients to connect to another replica. There they keep their locks, except on ZooKeeper.

    `ps` shows the arguments of a command. If the URL has a password, use --url-file, --config or
    LOCKFAST_URL. The command needs the extra `service` and that of the engine.

    For example:
      lockfast serve redis://localhost:6379
      lockfast serve postgresql://localhost/app --port 7421
      lockfast --url-file /run/secrets/lockfast-url serve
      lockfast serve --config /etc/lockfast.toml --check

    Exit codes:
      0   TERM or Ctrl-C ended it, or --check found nothing wrong
      64  the URL is that of the service, or an option is wrong
      70  workers ended again and again
      78  the URL or the configuration is wrong, an extra is missing, the port
          is in use, or other machines could connect without TLS or a key
    """
    given = {
        "host": host,
        "port": port,
        "workers": workers,
        "ssl_certfile": ssl_certfile,
        "ssl_keyfile": ssl_keyfile,
        "keys_file": keys_file,
        "handle_key_file": handle_key_file,
        "signing_key_file": signing_key_file,
        "behind_proxy": behind_proxy or None,
        "uds": uds,
        "audit_file": audit_file,
        "web": web or None,
    }
    options = {name: value for name, value in given.items() if value is not None}
    try:
        entries = {} if config is None else read(config)
    except ValueError as error:
        raise Misconfigured(str(error)) from error
    configured = entries.get("url")
    instead(context, url, configured)
    if not context.obj:
        raise Misconfigured(
            "no engine: name its URL, as in `lockfast serve redis://localhost:6379`, or by `url` "
            "in the file of --config, or by LOCKFAST_URL"
        )
    if context.obj != configured:  # it does not come from the file
        options["url"] = context.obj

    def reread() -> Config:
        return Config(**{**({} if config is None else read(config)), **options})

    try:
        settings = Config(**{**entries, **options})
        connect(context).close()  # raises if the URL is wrong, and sends nothing
        connects_to_engine(context)
        reloads = config is not None or settings.reloads
        if check:
            _check(settings, config)
        else:
            _run(context, settings, reread if reloads else None)
    except ImportError as error:
        raise Misconfigured(str(error)) from error


def _check(config: Config, path: str | None) -> None:
    from lockfast.service import load  # noqa: PLC0415  # for this command only

    server = load()
    show_log()
    try:
        risks = server.load(config).risks
    except ValueError as error:
        where = "" if path is None or repr(path) in str(error) else f"{path!r}: "
        raise Misconfigured(f"{where}{error}") from error
    for risk in risks:
        say(risk)
    say("the configuration can be used")


def _run(context: typer.Context, config: Config, reread: Callable[[], Config] | None) -> None:
    from lockfast.service import load  # noqa: PLC0415  # for this command only

    server = load()  # raises before the command says that it serves
    show_log()
    try:
        server.serve(config, reread, lambda found: say(_said(context, config, keyed=found.guarded)))
    except ValueError as error:
        raise Misconfigured(str(error)) from error


def _said(context: typer.Context, config: Config, *, keyed: bool) -> str:
    where = f"[{config.host}]" if ":" in config.host else config.host
    if config.uds is not None:
        proof = " that proves who it is" if keyed else " that may open it"
        return (
            f"serving {address(context)} at the unix socket {config.uds}, to every program{proof}"
        )
    private = is_private(config.host, config.port)
    if config.behind_proxy:
        return (
            f"serving {address(context)} at {where}:{config.port}, to a proxy. Clients connect to "
            "it, with LOCKFAST_URL=lockfasts://:KEY@PROXY:443"
        )
    whom = "every program on this machine" if private else "every program"
    scheme = "lockfasts" if config.ssl_certfile else "lockfast"
    name = "HOST" if config.host in EVERYWHERE else where
    said = (
        f"serving {address(context)} at {where}:{config.port}, to {whom}"
        f"{' that has an API key' if keyed else ''}. "
        f"Connect with LOCKFAST_URL={scheme}://{':KEY@' if keyed else ''}{name}:{config.port}"
    )
    if config.web:
        web = "https" if config.ssl_certfile else "http"
        said = f"{said}. The dashboard is at {web}://{name}:{config.port}/web/"
    return said
