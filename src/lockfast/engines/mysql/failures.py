"""Errors of the server as `EngineUnavailable` or `EngineRefused`, with what to do."""

from __future__ import annotations

import ssl

from lockfast.errors import EngineError, EngineRefused, EngineUnavailable

INSTALL = (
    "the tables and procedures are not installed: run lockfast.engines.mysql.install(url) once"
)
GRANT = "the user has no right to use locks: GRANT EXECUTE ON DATABASE.* TO 'USER'@'HOST'"
ACCOUNT = (
    "check the user and the password in the URL, and that the account exists for the host you "
    "connect from. An account with REQUIRE SSL needs TLS"
)
SOCKET = (
    "the account logs in through a Unix socket only, as the system user of the same name: "
    "?unix_socket=PATH. Or use an account with a password"
)
ROWS = "READ COMMITTED needs binlog_format = ROW or MIXED: SET GLOBAL binlog_format = ROW"
BREAK = (
    "let the user break locks, as the user who installed the procedures: "
    "INSERT INTO lockfast_operator (who, whose) VALUES ('OPERATOR', '%')"
)
HINTS = {
    1044: GRANT,
    1045: ACCOUNT,
    1049: INSTALL,
    1142: GRANT,
    1146: INSTALL,
    1227: BREAK,
    1305: INSTALL,
    1370: GRANT,
    1665: ROWS,
    1698: SOCKET,
}
"""What to do about an error that no later try can mend."""
OTHER_NAME = frozenset([62, 64])  # OpenSSL's numbers, for a host name and for an address
"""The certificate is from an authority that the client accepts, and is that of another server."""
INTERRUPTED = 1317
ALONE = 1047  # a Galera node that is not in the majority
NOT_NOW = frozenset(
    [
        1040,  # too many connections
        1129,  # the host is blocked after many errors
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
    said = f"{where}: {text} [{code}]"
    if code in NOT_NOW:
        return EngineUnavailable(said, sent=False)
    if code in UNKNOWN:
        return EngineUnavailable(said, sent=True)
    hint = HINTS.get(code)
    return EngineRefused(f"{said} ({hint})" if hint else said)


def distrusted(error: ssl.SSLCertVerificationError, where: str) -> EngineRefused:
    """Return the error for a certificate that was not accepted, with what to do."""
    if error.verify_code in OTHER_NAME:
        hint = "Connect to a name that is in the certificate"
    else:
        hint = "Name the authority that vouches for it: ?ssl_ca=PATH"
    why = error.verify_message
    return EngineRefused(f"{where}: the server's certificate was not accepted: {why}. {hint}")
