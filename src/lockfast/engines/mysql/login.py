"""The login at a MySQL or MariaDB server, as a generator: takes packets, gives packets. No I/O.

The formats and the cryptography of the passwords are PyMySQL's. Its connections are not used,
because a deadline does not bound them: a server that sends one byte per second keeps them for ever.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from enum import Enum

from lockfast.engines import missing

try:
    from pymysql import _auth
    from pymysql.constants import CLIENT
except ImportError as error:  # for who imports `install`, before `connect` has said it
    raise missing(error, "mysql", "mysql") from error

from lockfast.engines.mysql.packets import BrokenProtocol
from lockfast.engines.mysql.results import END, ERROR, OK, error_of

VERSION, FIXED, SALT = 10, 31, 8
UTF8MB4 = 45
NATIVE, SHA2, ED25519 = "mysql_native_password", "caching_sha2_password", "client_ed25519"
CLEAR = frozenset(["mysql_clear_password", "sha256_password"])
"""Plugins that send the password itself."""
EXTRA, FAST, WHOLE = 0x01, 0x03, 0x04  # what caching_sha2_password answers
WANTED = (
    CLIENT.LONG_PASSWORD
    | CLIENT.LONG_FLAG
    | CLIENT.PROTOCOL_41
    | CLIENT.TRANSACTIONS
    | CLIENT.SECURE_CONNECTION
    | CLIENT.MULTI_RESULTS
    | CLIENT.PLUGIN_AUTH
    | CLIENT.CONNECT_ATTRS
)
"""Not LOCAL_FILES: a server could then ask for any file of this machine. Not MULTI_STATEMENTS."""
NEEDED = CLIENT.PROTOCOL_41 | CLIENT.SECURE_CONNECTION | CLIENT.PLUGIN_AUTH
LARGEST = 0xFFFFFF
LONGEST = 64  # bytes of a plugin's name, as in the server's own tables
ROUNDS = 8  # packets that a login may take, in each direction


class Tls(Enum):
    """Whether a connection uses TLS."""

    NEVER = "never"
    OFFERED = "offered"
    """If the server offers it."""
    ALWAYS = "always"


class LoginRefused(Exception):  # never leaves the engine
    """The client does not log in here, because of what the server asks for."""


class StartTls(Enum):
    """What the login asks for between two packets."""

    NOW = "now"


@dataclass(frozen=True, slots=True)
class Identity:
    """Who logs in."""

    user: str
    password: bytes
    database: str
    tls: Tls
    trusted: bool
    """Whether nobody else can read what is sent once TLS has begun, if it does: then the server may
    have the password itself."""
    private: bool
    """The same without TLS: a Unix socket."""


Login = Generator["bytes | StartTls | None", bytes, None]
"""Yields payloads to send, `StartTls.NOW`, or None to wait for the next packet."""


def login(identity: Identity) -> Login:
    """Log in. Raises `ServerError` if the server refuses, `LoginRefused` if the client does."""
    capabilities, plugin, salt = _greeting((yield None))
    flags, private = WANTED, identity.private
    if identity.database:
        flags |= CLIENT.CONNECT_WITH_DB
    if identity.tls is Tls.ALWAYS and not capabilities & CLIENT.SSL:
        raise LoginRefused(
            "the server does not offer TLS. Give it a certificate, or connect with "
            "?ssl_mode=disabled if nobody else can read or change what is sent"
        )
    if identity.tls is not Tls.NEVER and capabilities & CLIENT.SSL:
        flags |= CLIENT.SSL
        yield _settings(flags)
        yield StartTls.NOW
        private = identity.trusted
    answer = _answer(plugin, salt, identity, private=private) if plugin in {NATIVE, SHA2} else b""
    attributes = _text(b"program_name") + _text(b"lockfast")
    yield b"".join(
        [
            _settings(flags),
            identity.user.encode() + b"\0",
            bytes([len(answer)]) + answer,
            identity.database.encode() + b"\0" if identity.database else b"",
            plugin.encode() + b"\0",
            _text(attributes),
        ]
    )
    for _ in range(ROUNDS):
        packet = yield None
        if packet[0] == OK:
            return
        if packet[0] == ERROR:
            raise error_of(packet)
        if packet[0] == END:
            plugin, salt = _switch(packet)
            yield _answer(plugin, salt, identity, private=private)
        elif packet[0] == EXTRA and plugin == SHA2 and packet[1:2] == bytes([WHOLE]):
            yield _whole(identity, plugin, private=private)
        elif packet[0] != EXTRA or plugin != SHA2 or packet[1:2] != bytes([FAST]):
            raise BrokenProtocol("an answer to the login that cannot be read")
    raise BrokenProtocol("a login without an end")


def _greeting(packet: bytes) -> tuple[int, str, bytes]:
    """Read the server's first packet: what it can do, its plugin, and the salt for the password."""
    if packet[0] == ERROR:
        raise error_of(packet)
    end = packet.find(b"\0", 1)
    rest = packet[end + 1 :]
    if packet[0] != VERSION or end < 0 or len(rest) < FIXED:
        raise BrokenProtocol("not the greeting of a MySQL or MariaDB server")
    capabilities = int.from_bytes(rest[13:15] + rest[18:20], "little")
    if capabilities & NEEDED != NEEDED:
        raise LoginRefused("the server is too old")
    more = max(rest[20] - SALT, 13)
    if len(rest) < FIXED + more:
        raise BrokenProtocol("a greeting that was cut")
    salt = rest[4 : 4 + SALT] + rest[FIXED : FIXED + more].rstrip(b"\0")
    return capabilities, _plugin(rest[FIXED + more :].partition(b"\0")[0]), salt


def _plugin(raw: bytes) -> str:
    """Read the name of a plugin, which goes back to the server and into messages."""
    if len(raw) > LONGEST:
        raise BrokenProtocol("a plugin whose name is too long")
    return raw.decode("ascii", "replace")


def _settings(flags: int) -> bytes:
    return b"".join(
        [flags.to_bytes(4, "little"), LARGEST.to_bytes(4, "little"), bytes([UTF8MB4]), bytes(23)]
    )


def _text(raw: bytes) -> bytes:
    return bytes([len(raw)]) + raw  # all are shorter than 251 bytes


def _switch(packet: bytes) -> tuple[str, bytes]:
    name, _, salt = packet[1:].partition(b"\0")
    return _plugin(name), salt.removesuffix(b"\0")


def _answer(plugin: str, salt: bytes, identity: Identity, *, private: bool) -> bytes:
    """Prove the password to the server, in the way that a plugin asks for."""
    password = identity.password
    if plugin == NATIVE:
        proof: bytes = _auth.scramble_native_password(password, salt)
    elif plugin == SHA2:
        proof = _auth.scramble_caching_sha2(password, salt)
    elif plugin == ED25519:
        try:
            proof = _auth.ed25519_password(password, salt)
        except RuntimeError:
            raise LoginRefused(
                "the account uses ed25519, which needs PyNaCl: pip install 'lockfast[mysql]'"
            ) from None
    elif plugin in CLEAR:
        proof = _whole(identity, plugin, private=private)
    else:
        raise LoginRefused(
            f"the account uses the plugin {plugin[:40]!r}. lockfast can log in with "
            f"{SHA2}, ed25519 and {NATIVE}"
        )
    return proof


def _whole(identity: Identity, plugin: str, *, private: bool) -> bytes:
    """Send the password itself, if nobody else can read it."""
    if not private:
        raise LoginRefused(
            f"{plugin} asks for the password itself, and the connection does not protect it: "
            "connect with ssl_mode=verify_identity, or through a Unix socket"
        )
    return identity.password + b"\0"
