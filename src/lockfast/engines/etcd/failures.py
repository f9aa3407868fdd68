"""Translates gRPC errors: nothing was done, the outcome is unknown, or etcd refused."""

from __future__ import annotations

from typing import Any

import grpc

from lockfast.errors import EngineError, EngineRefused, EngineUnavailable

UNCONNECTED = ("failed to connect", "DNS resolution failed")
"""The beginnings of gRPC's messages for requests that were never sent."""
LEADERLESS = "etcdserver: no leader"
BUSY = "too many requests"
LEASELESS = "requested lease not found"
HINTS = {
    "user name is empty": "put the user and password into the URL: etcd://USER:PASSWORD@HOSTS",
    "invalid user ID or password": "the user or password in the URL is wrong",
    "authentication is not enabled": "remove the user and password from the URL, or run "
    "`etcdctl auth enable`",
    "permission denied": "an administrator can grant all that lockfast needs: "
    "etcdctl role grant-permission ROLE readwrite --prefix=true lockfast/",
}
"""What to do, by the end of etcd's message."""


class Leaderless(EngineUnavailable):
    """The members are electing a leader. They process no request until they have one."""


class Leaseless(EngineUnavailable):
    """A lease expired before anything was put on it, because this process or etcd was paused."""


def crowded() -> EngineUnavailable:
    """Return the error for a caller whose turn did not come before its deadline."""
    return EngineUnavailable("etcd: no time was left to send the request", sent=False)


def another(error: EngineError) -> EngineError:
    """Return a copy of an error, for one of several callers: each raises one of its own."""
    copy = (
        EngineUnavailable(error.message, sent=error.sent)
        if isinstance(error, EngineUnavailable)
        else EngineRefused(error.message)
    )
    copy.__cause__ = error
    return copy


def failed(error: Any, address: str) -> EngineError:
    """Return the error to raise for a gRPC error of the member at `address`."""
    code, said = error.code(), str(error.details())
    what = f"etcd at {address}: {said}"
    if said == LEADERLESS:
        return Leaderless(what, sent=False)
    if code is grpc.StatusCode.UNAVAILABLE:
        return EngineUnavailable(what, sent=not said.startswith(UNCONNECTED))
    if code is grpc.StatusCode.NOT_FOUND and LEASELESS in said:
        return Leaseless(what, sent=False)
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED and BUSY in said:
        return EngineUnavailable(what, sent=False)
    if code in (
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.UNKNOWN,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.ABORTED,
    ):
        return EngineUnavailable(what, sent=True)
    hint = next((hint for end, hint in HINTS.items() if said.endswith(end)), "")
    return EngineRefused(f"{what} ({hint})" if hint else what)
