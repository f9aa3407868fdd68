"""Translates kazoo's errors to a lost session, an unknown outcome, or a refused request."""

from __future__ import annotations

from typing import Any

from kazoo.exceptions import (
    AuthFailedError,
    ConnectionLoss,
    InvalidACLError,
    KazooException,
    NoAuthError,
    OperationTimeoutError,
    RequestTimeoutError,
    SessionExpiredError,
    SessionMovedError,
    ThrottledOpError,
)

from lockfast.errors import EngineRefused, EngineUnavailable

HINTS = {
    AuthFailedError: ": wrong credentials",
    NoAuthError: ": other credentials created the nodes. Connect with the user and password, or "
    "the certificate, of the other clients, or name another path: "
    "zookeeper://USER:PASSWORD@HOSTS/PATH",
    InvalidACLError: ": the ensemble does not know this client, so the client cannot own nodes. "
    "Let the servers check client certificates (ssl.clientAuth=need), or connect with acl=open",
}
UNKNOWN = (
    ConnectionLoss,
    OperationTimeoutError,
    RequestTimeoutError,
    SessionMovedError,
    ThrottledOpError,
)


class SessionLost(Exception):
    """The session has ended or was given up, and all its claims are lost."""


def failed(error: Exception, where: str) -> Exception:
    """Return the exception to raise for an error that kazoo returned instead of an answer."""
    if isinstance(error, SessionExpiredError):
        return SessionLost()
    if not isinstance(error, KazooException):
        said = f"ZooKeeper at {where}: the reply cannot be read: {error!r}"
        return EngineUnavailable(said, sent=True)
    said = f"ZooKeeper at {where}: {type(error).__name__}"
    if isinstance(error, UNKNOWN):
        return EngineUnavailable(said, sent=True)
    return EngineRefused(said + HINTS.get(type(error), ""))


def whole(answer: Any) -> Any:  # noqa: ANN401  # see Reply
    """Return an answer, or raise the error in it: kazoo returns a failed transaction as a list of
    errors.
    """
    if isinstance(answer, list) and answer and isinstance(answer[0], Exception):
        raise answer[0]
    return answer


def out_of_bounds(ttl: float, given: float, where: str) -> EngineRefused:
    """Return the error for a ttl that the servers do not allow. They offer `given` seconds."""
    bound, setting = (
        ("at least", "minSessionTimeout") if given > ttl else ("at most", "maxSessionTimeout")
    )
    return EngineRefused(
        f"a ttl of {ttl:g} s is not possible: ZooKeeper at {where} keeps a session for "
        f"{bound} {given:g} s. Use a ttl of {given:g}, or change {setting} of the servers."
    )
