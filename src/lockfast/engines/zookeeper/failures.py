"""What an error of kazoo means: the session is over, the outcome is unknown, or it was refused."""

from __future__ import annotations

from typing import Any

from kazoo.exceptions import (
    AuthFailedError,
    ConnectionLoss,
    InvalidACLError,
    KazooException,
    OperationTimeoutError,
    RequestTimeoutError,
    SessionExpiredError,
    SessionMovedError,
    ThrottledOpError,
)

from lockfast.errors import EngineRefused, EngineUnavailable

HINTS = {
    AuthFailedError: ": wrong credentials",
    InvalidACLError: ": the ensemble does not know who this client is, so nodes cannot be its own. "
    "Let it check client certificates (ssl.clientAuth=need), or connect with acl=open",
}
UNKNOWN = (
    ConnectionLoss,
    OperationTimeoutError,
    RequestTimeoutError,
    SessionMovedError,
    ThrottledOpError,
)


class SessionLost(Exception):
    """The session is over, and all its nodes are gone."""


def failed(error: Exception, where: str) -> Exception:
    """Return what to raise for an error that kazoo gave instead of an answer."""
    if isinstance(error, SessionExpiredError):
        return SessionLost()
    if not isinstance(error, KazooException):
        said = f"ZooKeeper at {where}: an answer that cannot be read: {error!r}"
        return EngineUnavailable(said, sent=True)
    said = f"ZooKeeper at {where}: {type(error).__name__}"
    if isinstance(error, UNKNOWN):
        return EngineUnavailable(said, sent=True)
    return EngineRefused(said + HINTS.get(type(error), ""))


def whole(answer: Any) -> Any:  # noqa: ANN401  # see Reply
    """Raise what failed within a transaction: to kazoo that is a part of the answer."""
    if isinstance(answer, list) and answer and isinstance(answer[0], Exception):
        raise answer[0]
    return answer


def out_of_bounds(ttl: float, given: float, where: str) -> EngineRefused:
    """Make the error for a ttl that the servers do not allow: they offer `given` seconds."""
    bound, setting = (
        ("at least", "minSessionTimeout") if given > ttl else ("at most", "maxSessionTimeout")
    )
    return EngineRefused(
        f"a ttl of {ttl:g} s cannot be had: ZooKeeper at {where} keeps a session for "
        f"{bound} {given:g} s. Ask for a ttl of {given:g}, or change {setting} of the servers."
    )
