"""The clients that an engine hears, and which of them it has not subscribed to yet."""

from __future__ import annotations


class Hearing:
    """A set of clients that any thread may change, and that only `listen` reads.

    Each step is one operation on a dict, which is atomic. A change is noted after it was made, so
    whoever takes the note finds the change.
    """

    def __init__(self) -> None:
        """Start without a client."""
        self._clients: dict[str, None] = {}
        self._changes: dict[str, bool] = {}

    def hear(self, client: str, *, on: bool) -> None:
        """Add a client, or take it out."""
        if on:
            self._clients[client] = None
        else:
            self._clients.pop(client, None)
        self._changes[client] = on

    def __contains__(self, client: object) -> bool:
        """Return whether a client is heard."""
        return client in self._clients

    def __len__(self) -> int:
        """Return how many clients are heard."""
        return len(self._clients)

    @property
    def changed(self) -> bool:
        """Whether there is a change that was not taken yet."""
        return bool(self._changes)

    def every(self) -> list[str]:
        """Return all clients, for a new connection. Earlier changes count as taken."""
        self._changes.clear()
        return list(self._clients)

    def take(self, most: int) -> dict[str, bool]:
        """Take up to `most` changes: for each client, whether it is heard now."""
        taken: dict[str, bool] = {}
        while self._changes and len(taken) < most:
            client, on = self._changes.popitem()
            taken[client] = on
        return taken

    def put_back(self, changes: dict[str, bool]) -> None:
        """Note changes again that could not be made. A later change of the same client counts."""
        for client, on in changes.items():
            self._changes.setdefault(client, on)
