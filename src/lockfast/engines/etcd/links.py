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
    # The time to make a connection: enough for three round trips with TLS, and less than IO.
    ("grpc.min_reconnect_backoff_ms", 500),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.keepalive_time_ms", 10_000),  # etcd rejects pings less than five seconds apart
    ("grpc.keepalive_timeout_ms", 3_000),
    ("grpc.max_receive_message_length", -1),
)
READY: int = grpc.ChannelConnectivity.READY.value[0]
GRACE = 10.0  # seconds before a channel that was replaced is closed: no request takes longer

Credentials = grpc.ChannelCredentials | None


@dataclass(frozen=True, slots=True)
class Login:
    """The addresses of the members, and the credentials for them."""

    addresses: tuple[str, ...]
    username: str | None = None
    secret: Secret = field(default=lambda: None, repr=False)
    tls: Tls[grpc.ChannelCredentials] | None = None
    certified: bool = False
    """Whether the client has a certificate of its own."""

    def credentials(self) -> Credentials:
        """Return the credentials for a new channel: the same object until a file changes."""
        return None if self.tls is None else self.tls.current()


class Link:
    """The channel to one member, and its gRPC calls by method."""

    __slots__ = ("address", "calls", "channel", "credentials", "replaced")

    def __init__(self, address: str, channel: Any, credentials: Credentials) -> None:
        """Wrap a channel of grpc or grpc.aio. A channel connects on its first call."""
        self.address = address
        self.channel = channel
        self.credentials = credentials
        self.replaced = 0.0
        """When a link with newer credentials took its place."""
        self.calls = {method: channel.unary_unary(method, None, None) for method in METHODS}

    def connected(self) -> bool:
        """Return whether the channel has a connection. A connection outlives a change of files."""
        try:
            # The public API reports it only from a thread of its own. grpc.aio has this method too.
            state: int = self.channel._channel.check_connectivity_state(False)  # noqa: SLF001, FBT003
        except AttributeError:  # another version of grpc: replace the link when the files change
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
    """The links of a client, by member. It takes no lock: a signal handler could deadlock on it."""

    def __init__(
        self,
        login: Login,
        clock: Clock,
        make: Callable[[str, Credentials], Link],
        close: Callable[[Link], object],
        grace: float = GRACE,
    ) -> None:
        """Connect to nothing yet. `close` closes a replaced link, `grace` seconds later."""
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
            if self._links.get(address) is link:  # else another thread has replaced it
                self._replace(self._links.pop(address, None))
        made = self._links.get(address) or self._make(address, credentials)
        link = self._links.setdefault(address, made)
        if link is not made:  # another thread has opened one
            self._replace(made)
        return link

    def _replace(self, link: Link | None) -> None:
        """Close it later: other threads may have requests on it, which closing would cancel."""
        if link is not None:
            link.replaced = self._now()
            self._replaced.append(link)
            self._sweep()

    def _sweep(self) -> None:
        for link in tuple(self._replaced):
            if self._now() - link.replaced >= self._grace:
                with contextlib.suppress(ValueError):  # another thread has removed it
                    self._replaced.remove(link)
                    self._close(link)

    def clear(self) -> list[Link]:
        """Forget all links, and return them."""
        links, self._links = self._links, {}
        replaced, self._replaced = self._replaced, []
        return [*links.values(), *replaced]
