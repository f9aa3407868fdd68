"""Requests to ZooKeeper that kazoo does not define, or whose content its log must not show."""

from __future__ import annotations

from kazoo.protocol.serialization import Auth, Connect, Create2

EPHEMERAL_SEQUENTIAL, CONTAINER = 3, 4  # flags of a request that creates a node


class CreateContainer(Create2):  # type: ignore[misc]  # kazoo ships no types
    """Creates a node that the server deletes after its last child. kazoo does not define it."""

    type = 19


class Unlogged:
    """A request with credentials, whose content kazoo's log at DEBUG must not show."""

    def __repr__(self) -> str:
        """Return the type of the request without its content."""
        return f"{type(self).__name__}(...)"


class Login(Unlogged, Auth):  # type: ignore[misc]  # kazoo ships no types
    """The request to authenticate, with user and password."""


class Opening(Unlogged, Connect):  # type: ignore[misc]  # kazoo ships no types
    """The request to open a session, with its password. Whoever has that can end the session."""
