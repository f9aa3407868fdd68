"""Reads an etcd URL: the addresses of the members, the login and the TLS files."""

from __future__ import annotations

from pathlib import Path

import grpc

from lockfast.engines.etcd.links import Login
from lockfast.engines.tls import Tls, tls_context
from lockfast.url import Target, unreadable

FILES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
OPTIONS = ("password_file", *FILES, "token_base")
"""The options that a URL may have. Those of TLS have the names that redis-py uses."""


def login_of(target: Target) -> Login:
    """Return the addresses and the credentials in a URL. Raise `ValueError` if it is wrong."""
    options = target.take(*OPTIONS)
    if target.scheme not in ("etcd", "etcds"):
        raise ValueError(f"there is no {target.scheme}://: write etcd:// or etcds://")
    if target.path.strip("/"):
        raise ValueError(f"{target.scheme}:// has no path, and there is one: {target.path!r}")
    if ("ssl_certfile" in options) != ("ssl_keyfile" in options):
        raise ValueError("ssl_certfile and ssl_keyfile go together: a certificate and its key")
    hosts = target.hosts or (("localhost", None),)
    secure = target.scheme == "etcds"
    return Login(
        addresses=tuple(_address(host, port or 2379) for host, port in hosts),
        username=target.username,
        secret=target.secret(),
        tls=Tls(options, FILES, lambda: _credentials(options)) if secure else None,
        certified="ssl_certfile" in options,
    )


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _credentials(options: dict[str, str]) -> grpc.ChannelCredentials:
    def read(name: str) -> bytes | None:
        if name not in options:
            return None
        path = options[name]
        try:
            return Path(path).read_bytes()
        except OSError as error:
            raise ValueError(unreadable(name, path, error)) from None

    if any(name in options for name in FILES):
        tls_context(options, *FILES, None)  # raises; gRPC would report no error, and never connect
    authority, certificate, key = map(read, FILES)
    return grpc.ssl_channel_credentials(
        root_certificates=authority, private_key=key, certificate_chain=certificate
    )
