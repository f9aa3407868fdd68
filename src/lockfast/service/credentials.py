"""What a configuration's files contain: the API keys, and the certificate for TLS."""

from __future__ import annotations

import shlex
import ssl
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lockfast.service.binding import is_private
from lockfast.service.config import Config
from lockfast.service.config_file import handle_keys, keys_of
from lockfast.service.keys import Keys
from lockfast.service.tls import expiry, server_context

PAGE = "The page 'Secure the lock service' of the documentation shows each step."


@dataclass(frozen=True, slots=True)
class Credentials:
    """Who may connect, and how the replica proves who it is."""

    keys: Keys
    tls: ssl.SSLContext | None
    expires: float | None
    """When the certificate expires, by the wall clock."""
    risks: tuple[str, ...]
    """What is unwise, and no reason not to serve."""
    handle_keys: tuple[bytes, ...] = ()
    """The keys of handles, the present one first. Empty: the configuration names none."""


def load(config: Config) -> Credentials:
    """Load and check everything that a configuration names. Raise `ValueError` about what is wrong
    with it, and in particular if strangers could use the locks.
    """
    if config.ssl_keyfile is not None and config.ssl_certfile is None:
        raise ValueError("ssl_keyfile needs ssl_certfile, the certificate for this key")
    entries: dict[str, object] = dict(config.keys)
    if config.keys_file is not None:
        more = keys_of(config.keys_file)
        twice = sorted(entries.keys() & more.keys())
        if twice:
            raise ValueError(f"the key {twice[0]} is in keys_file and among the keys: remove one")
        entries |= more
    tls = expires = None
    if config.ssl_certfile is not None:
        tls = server_context(config.ssl_certfile, config.ssl_keyfile)
        expires = expiry(tls, config.ssl_certfile)
    sealing = () if config.handle_key_file is None else handle_keys(config.handle_key_file)
    credentials = Credentials(Keys(entries), tls, expires, tuple(_risks(config)), sealing)
    _refuse_exposure(config, credentials)
    return credentials


def _risks(config: Config) -> Iterator[str]:
    """Say which files other users of this machine can read or change, though they should not."""
    secret = config.ssl_keyfile or config.ssl_certfile
    for path, bit, what in (
        (secret, stat.S_IROTH, "has a private key, and every user of this machine can read it"),
        (secret, stat.S_IWOTH, "can be changed by every user of this machine"),
        (config.keys_file, stat.S_IWOTH, "can be changed by every user of this machine"),
        (
            config.handle_key_file,
            stat.S_IROTH,
            "has a secret, and every user of this machine can read it",
        ),
        (config.handle_key_file, stat.S_IWOTH, "can be changed by every user of this machine"),
    ):
        if path is not None and Path(path).stat().st_mode & bit:
            yield f"{path!r} {what}: chmod o-rw {shlex.quote(path)}"


def _refuse_exposure(config: Config, credentials: Credentials) -> None:
    """Raise `ValueError` if a program of another machine could connect without TLS or a key."""
    if config.behind_proxy and credentials.tls is not None:
        raise ValueError(
            "behind_proxy says that a proxy does TLS, and ssl_certfile that the service does: "
            "use one of them"
        )
    private = is_private(config.host, config.port)
    if private and not config.behind_proxy:
        return
    missing = []
    if credentials.tls is None and not config.behind_proxy:
        missing.append(
            "TLS (--ssl-certfile and --ssl-keyfile, or --behind-proxy if a proxy does TLS)"
        )
    if not credentials.keys:
        missing.append("API keys (make one with `lockfast new-key NAME`, and use --keys-file)")
    if missing:
        what = (
            f"{config.host!r} is an address that other machines can reach"
            if not private
            else "programs of other machines can connect through the proxy"
        )
        raise ValueError(f"{what}, so it needs {' and '.join(missing)}. {PAGE}")
