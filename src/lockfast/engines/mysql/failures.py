"""Errors of the server as `EngineUnavailable` or `EngineRefused`, with what to do."""

from __future__ import annotations

import ssl

from lockfast.errors import EngineError, EngineRefused, EngineUnavailable

INSTALL = (
    "the tables and procedures are not installed: run lockfast.engines.mysql.install(url) once, or "
    "`lockfast --url URL install`"
)
GRANT = (
    "the user has no right to use locks in this database: GRANT EXECUTE ON DATABASE.* TO "
    "'USER'@'HOST'"
)
DATABASE = (
    "the user has no right to use locks in this database, or the database does not exist: check "
    "its name in the URL, and GRANT EXECUTE ON DATABASE.* TO 'USER'@'HOST'"
)
ACCOUNT = (
    "check the user and the password in the URL, and that the account exists for the host you "
    "connect from. An account with REQUIRE SSL needs TLS"
)
SOCKET = (
    "the account logs in through a Unix socket only, as the system user of the same name: "
    "?unix_socket=PATH. Or use an account with a password"
)
PACKET = (
    "a request is longer than the server allows: SET GLOBAL max_allowed_packet = 16777216, and in "
    "the server's configuration"
)
FULL = (
    "all connections of the server are in use: raise max_connections, or let fewer clients connect"
)
LIMIT = "the user has reached a limit: raise it, or let fewer clients log in as this user"
PRIMARY = "connect to the primary, or list all servers in the URL"
LOCKED = "unlock the account: ALTER USER 'USER'@'HOST' ACCOUNT UNLOCK"
EXPIRED = (
    "the password has expired: let an administrator run ALTER USER 'USER'@'HOST' IDENTIFIED BY "
    "'PASSWORD'"
)
ROWS = "READ COMMITTED needs binlog_format = ROW or MIXED: SET GLOBAL binlog_format = ROW"
BREAK = (
    "let the user break locks, as the user who installed the procedures: "
    "INSERT INTO lockfast_operator (who, whose) VALUES ('OPERATOR', '%')"
)
HINTS = {
    1040: FULL,
    1044: DATABASE,
    1045: ACCOUNT,
    1049: INSTALL,
    1142: GRANT,
    1146: INSTALL,
    1153: PACKET,
    1203: LIMIT,
    1226: LIMIT,
    1227: BREAK,
    1290: PRIMARY,
    1305: INSTALL,
    1370: GRANT,
    1665: ROWS,
    1698: SOCKET,
    1792: PRIMARY,
    1820: EXPIRED,
    1836: PRIMARY,
    1862: EXPIRED,
    3118: LOCKED,  # MySQL
    4151: LOCKED,  # MariaDB
}
"""What to do about an error."""
OTHER_NAME = frozenset([62, 64])  # OpenSSL's numbers, for a host name and for an address
"""The certificate is from an authority that the client accepts, and is that of another server."""
UNKNOWN_AUTHORITY = frozenset([2, 18, 19, 20, 21])
"""OpenSSL's numbers: the client does not know the authority, or has not found it."""
INTERRUPTED = 1317
ALONE = 1047  # a Galera node that is not in the majority
NOT_NOW = frozenset(
    [
        1040,  # too many connections
        1129,  # the host is blocked after many errors
        1153,  # a packet is too large for this server, and was not for the one before
        1203,  # too many connections of the user
        1205,  # a lock that was not free in time
        1213,  # a deadlock, or on Galera a conflict with another node
        1226,  # a limit of the account
        1290,  # the server is read-only
        1792,  # so is the transaction
        1836,  # so is the server
        3100,  # a plugin refused the commit
        ALONE,
    ]
)
"""Errors after which nothing has happened, and a later try may succeed."""
UNKNOWN = frozenset(
    [
        1053,  # the server shuts down
        1080,
        1180,  # the outcome of a commit is not known
        1317,  # interrupted
        1927,  # the connection was killed
        1969,  # max_statement_time
        3024,  # the same on MySQL
        4031,  # the server closed the connection
    ]
)
"""Errors after which it is not known what has happened."""
AGAIN = frozenset([1205, 1213, 1227, 1568, 1644])
"""Errors after which the connection can be used again."""


def failed(code: int, text: str, where: str) -> EngineError:
    """Return the error for a number: unavailable if a later try may succeed, else refused."""
    hint = HINTS.get(code)
    said = f"{where}: {text} [{code}]" + (f" ({hint})" if hint else "")
    if code in NOT_NOW:
        return EngineUnavailable(said, sent=False)
    if code in UNKNOWN:
        return EngineUnavailable(said, sent=True)
    return EngineRefused(said)


def distrusted(error: ssl.SSLCertVerificationError, where: str) -> EngineRefused:
    """Return the error for a certificate that was not accepted, with what to do."""
    if error.verify_code in OTHER_NAME:
        hint = "Connect to a name that is in the certificate"
    elif error.verify_code in UNKNOWN_AUTHORITY:
        hint = "Name the authority that vouches for it: ?ssl_ca=PATH"
    else:  # out of date, or without an extension that Python 3.13 and later ask for
        hint = "Replace the certificate of the server or of its authority"
    why = error.verify_message.rstrip(".")
    return EngineRefused(f"{where}: the server's certificate was not accepted: {why}. {hint}")
