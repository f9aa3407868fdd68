"""What a configuration's files contain: the API keys, and the certificate for TLS."""

from __future__ import annotations

import os
import re
import shlex
import ssl
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lockfast.plain import plain
from lockfast.service.audit import unusable
from lockfast.service.binding import is_private
from lockfast.service.config import Config
from lockfast.service.config_file import handle_keys, keys_of, signing
from lockfast.service.keys import Keys
from lockfast.service.signing import Signing
from lockfast.service.subjects import KEYS, TOKENS, Subjects
from lockfast.service.tls import expiry, server_context
from lockfast.service.tokens import Tokens

LONGEST_UDS = 100  # bytes: the system allows 107, and 103 on macOS
RESERVED = {"authorization", "origin", "host", "connection", "upgrade"}
PAGE = "The page 'Secure the lock service' of the documentation shows each step."


@dataclass(frozen=True, slots=True)
class Credentials:
    """Who may connect, and how the replica proves who it is."""

    keys: Keys
    subjects: Subjects | None
    """None: the configuration has no rights."""
    tokens: Tokens | None
    header: str | None
    """The header in which a proxy names the client's certificate."""
    tls: ssl.SSLContext | None
    expires: float | None
    """When the certificate expires, by the wall clock."""
    risks: tuple[str, ...]
    """What is unwise, and no reason not to serve."""
    handle_keys: tuple[bytes, ...] = ()
    """The keys of handles, the present one first. Empty: the configuration names none."""
    signing: Signing | None = None
    """The keys that sign tokens."""

    @property
    def guarded(self) -> bool:
        """Whether clients have to prove who they are."""
        return bool(self.keys or self.tokens is not None or self.header is not None)


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
    signs = None if config.signing_key_file is None else signing(config.signing_key_file)
    sealing = () if config.handle_key_file is None else handle_keys(config.handle_key_file)
    keys = Keys(entries)
    subjects = None if config.subjects is None else Subjects(config.subjects)
    tokens = None if config.jwt is None else Tokens(config.jwt)
    _check_header(config)
    _check_audit(config)
    risks = (*_risks(config), *_unknown(keys, subjects, tokens))
    header = config.certificate_header
    credentials = Credentials(keys, subjects, tokens, header, tls, expires, risks, sealing, signs)
    _refuse_exposure(config, credentials)
    return credentials


def _unknown(keys: Keys, subjects: Subjects | None, tokens: Tokens | None) -> Iterator[str]:
    """Say what fits nothing in the configuration. It cannot open a door, so it is no error."""
    if subjects is None:
        return
    named, known = subjects.known(KEYS), set(keys.names)
    for name in sorted(known - named):
        yield (
            f"the key {name} has no rights, and all its requests will be refused: add "
            f"[subjects.{name}], or its name to `keys` of a subject"
        )
    for name in sorted(named - known):
        yield f"a subject has the key {plain(name)!r}, and there is no key with this name"
    if tokens is None and subjects.known(TOKENS):
        yield "subjects have `tokens`, and without [jwt] no token is accepted"


def _check_header(config: Config) -> None:
    """Raise `ValueError` if clients could write the header of the proxy themselves."""
    if config.uds is not None:
        if not re.fullmatch("0?[0-7]{3}", config.uds_mode) or int(config.uds_mode, 8) & 0o7:
            raise ValueError(
                f'uds_mode must be three octal digits, of which the last one is 0, such as "0660", '
                f"and is {config.uds_mode[:20]!r}"
            )
        if len(os.fsencode(config.uds)) > LONGEST_UDS:
            raise ValueError(f"uds: the path must have at most {LONGEST_UDS} bytes")
        if config.ssl_certfile is not None:
            raise ValueError("uds and ssl_certfile: on a unix socket, the proxy does TLS")
    header = config.certificate_header
    if config.jwt is not None and not config.subjects:
        raise ValueError("jwt needs [subjects.NAME] with `tokens`, or it lets nobody in")
    if header is None:
        return
    if config.uds is None:
        raise ValueError("certificate_header needs uds: it is believed only on a unix socket")
    if not re.fullmatch("[A-Za-z0-9-]{1,100}", header) or header.lower() in RESERVED:
        raise ValueError(f"certificate_header: {header[:100]!r} cannot be the name of this header")
    if not config.subjects:
        raise ValueError("certificate_header needs [subjects.NAME] with `certificates`")


def _check_audit(config: Config) -> None:
    why = "" if config.audit_file is None else unusable(config.audit_file)
    if why:
        raise ValueError(f"audit_file {config.audit_file!r} cannot be written: {why}")


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
        (
            config.signing_key_file,
            stat.S_IROTH,
            "has a secret, and every user of this machine can read it",
        ),
        (config.signing_key_file, stat.S_IWOTH, "can be changed by every user of this machine"),
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
    private = config.uds is not None or is_private(config.host, config.port)
    guarded = credentials.guarded
    if credentials.subjects is not None and not guarded:
        raise ValueError(
            "[subjects] needs a way to know them: API keys (keys_file), [jwt] or certificate_header"
        )
    if private and not config.behind_proxy:
        return
    missing = []
    if credentials.tls is None and not config.behind_proxy and config.uds is None:
        missing.append(
            "TLS (--ssl-certfile and --ssl-keyfile, or --behind-proxy if a proxy does TLS)"
        )
    if not guarded:
        missing.append("API keys (make one with `lockfast new-key NAME`, and use --keys-file)")
    if missing:
        what = (
            f"{config.host!r} is an address that other machines can reach"
            if not private
            else "programs of other machines can connect through the proxy"
        )
        raise ValueError(f"{what}, so it needs {' and '.join(missing)}. {PAGE}")
