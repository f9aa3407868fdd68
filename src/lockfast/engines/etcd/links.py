"""The channels to the members: one for each, and another one once the TLS files have changed.

A channel of gRPC connects again by itself, always with the credentials that it was made with.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import grpc

from lockfast.engines.etcd.messages import METHODS
from lockfast.engines.tls import Tls
from lockfast.runtime.base import Clock
from lockfast.url import Secret

OPTIONS = (
    ("grpc.enable_retries", 0),
    ("grpc.initial_reconnect_backoff_ms", 50),
    # How long making a connection may take: three round trips with TLS, and less than IO.
    ("grpc.min_reconnect_backoff_ms", 500),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.keepalive_time_ms", 10_000),  # etcd takes offence at pings within five seconds
    ("grpc.keepalive_timeout_ms", 3_000),
    ("grpc.max_receive_message_length", -1),
)
READY: int = grpc.ChannelConnectivity.READY.value[0]
GRACE = 10.0  # seconds before a channel that was replaced is closed: no request takes longer

Credentials = grpc.ChannelCredentials | None


@dataclass(frozen=True, slots=True)
class Login:
    """Where the members are, and how to greet them."""

    addresses: tuple[str, ...]
    username: str | None = None
    secret: Secret = field(default=lambda: None, repr=False)
    tls: Tls[grpc.ChannelCredentials] | None = None
    certified: bool = False
    """Whether it has a certificate of its own."""

    def credentials(self) -> Credentials:
        """Return the credentials for a new channel: the same object until a file changes."""
        return None if self.tls is None else self.tls.current()


class Link:
    """The calls that a member takes."""

    __slots__ = ("address", "calls", "channel", "credentials", "replaced")

    def __init__(self, address: str, channel: Any, credentials: Credentials) -> None:
        """Wrap a channel of grpc or grpc.aio. A channel connects on its first call."""
        self.address = address
        self.channel = channel
        self.credentials = credentials
        self.replaced = 0.0
        """When another one took its place."""
        self.calls = {method: channel.unary_unary(method, None, None) for method in METHODS}

    def connected(self) -> bool:
        """Return whether it has a connection, which goes on with the files it was made with."""
        try:
            # grpc tells it without a thread of its own only here; grpc.aio has the same.
            state: int = self.channel._channel.check_connectivity_state(False)  # noqa: SLF001, FBT003
        except AttributeError:  # another version of grpc: then a change of files is enough
            return False
        return state == READY


def blocking(address: str, credentials: Credentials) -> Link:
    """Open a channel for threads."""
    return Link(
        address,
        grpc.insecure_channel(address, OPTIONS)
        if credentials is None
        else grpc.secure_channel(address, credentials, OPTIONS),
        credentials,
    )


def end(link: Link) -> None:
    """Close a channel for threads."""
    link.channel.close()


class Links:
    """The links of a client, by member. Without a lock, which a signal handler would wait for."""

    def __init__(
        self,
        login: Login,
        clock: Clock,
        make: Callable[[str, Credentials], Link],
        close: Callable[[Link], object],
        grace: float = GRACE,
    ) -> None:
        """Begin empty. `close` closes a link that was replaced, after some seconds of grace."""
        self._login = login
        self._now = clock
        self._make = make
        self._close = close
        self._grace = grace
        self._links: dict[str, Link] = {}
        self._replaced: list[Link] = []

    def to(self, address: str) -> Link:
        """Return the link to a member, for a request now."""
        if self._replaced:
            self._sweep()
        link = self._links.get(address)
        if link is not None and (link.credentials is None or link.connected()):
            return link
        credentials = self._login.credentials()
        if link is not None:
            if link.credentials is credentials:
                return link
            self._replace(self._links.pop(address, None))
        made = self._make(address, credentials)
        link = self._links.setdefault(address, made)
        if link is not made:  # another thread was quicker
            self._replace(made)
        return link

    def _replace(self, link: Link | None) -> None:
        """Put it aside: other threads may have requests on it, which its end would cancel."""
        if link is not None:
            link.replaced = self._now()
            self._replaced.append(link)
            self._sweep()

    def _sweep(self) -> None:
        for link in tuple(self._replaced):
            if self._now() - link.replaced >= self._grace:
                with contextlib.suppress(ValueError):  # another thread was quicker
                    self._replaced.remove(link)
                    self._close(link)

    def clear(self) -> list[Link]:
        """Forget all, and return them."""
        links, self._links = self._links, {}
        replaced, self._replaced = self._replaced, []
        return [*links.values(), *replaced]
