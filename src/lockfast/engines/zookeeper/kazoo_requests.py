"""Requests to ZooKeeper that kazoo has no name for, or that its log must not show."""

from __future__ import annotations

from kazoo.protocol.serialization import Auth, Connect, Create2

EPHEMERAL_SEQUENTIAL, CONTAINER = 3, 4  # flags of a node that is created


class CreateContainer(Create2):  # type: ignore[misc]  # kazoo ships no types
    """A node that the server removes once its last child has gone: kazoo has no name for it."""

    type = 19


class Unlogged:
    """A request that kazoo's log at DEBUG does not show: credentials stand in it."""

    def __repr__(self) -> str:
        """Say what it is, and not what it says."""
        return f"{type(self).__name__}(...)"


class Login(Unlogged, Auth):  # type: ignore[misc]  # kazoo ships no types
    """Name and password."""


class Opening(Unlogged, Connect):  # type: ignore[misc]  # kazoo ships no types
    """The begin of a session: whoever has its password can end it."""
