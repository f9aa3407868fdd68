"""Reads an etcd URL: the addresses of the members, the login and the TLS files."""

from __future__ import annotations

from pathlib import Path

import grpc

from lockfast.engines.etcd.transport import Login
from lockfast.url import Target, unreadable

OPTIONS = ("password_file", "ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "token_base")
"""The options that a URL may have. Those of TLS have the names that redis-py uses."""
PEM = b"-----BEGIN "


def login_of(target: Target) -> Login:
    """Return the addresses and the credentials in a URL. Raise `ValueError` if it is wrong."""
    options = target.take(*OPTIONS)
    if target.scheme not in ("etcd", "etcds"):
        raise ValueError(f"no such way to etcd: {target.scheme}://")
    if target.path.strip("/"):
        raise ValueError(f"{target.scheme}:// has no path, and there is one: {target.path!r}")
    if ("ssl_certfile" in options) != ("ssl_keyfile" in options):
        raise ValueError("ssl_certfile and ssl_keyfile go together: a certificate and its key")
    hosts = target.hosts or (("localhost", None),)
    return Login(
        addresses=tuple(_address(host, port or 2379) for host, port in hosts),
        username=target.username,
        secret=target.secret(),
        credentials=_credentials(options) if target.scheme == "etcds" else None,
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
            text = Path(path).read_bytes()
        except OSError as error:
            raise ValueError(unreadable(name, path, error)) from None
        if PEM not in text:  # gRPC would report no error, and never connect
            wanted = "a key" if name == "ssl_keyfile" else "a certificate"
            raise ValueError(f"{name}, {path!r}, cannot be used: put {wanted} in PEM format there")
        return text

    authority, certificate, key = map(read, ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile"))
    return grpc.ssl_channel_credentials(
        root_certificates=authority, private_key=key, certificate_chain=certificate
    )
