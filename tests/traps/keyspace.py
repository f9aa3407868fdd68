"""What Redis itself has of a lock, and an operator who deletes it."""

from __future__ import annotations

from tests.servers import Redis


def keys(server: Redis, pattern: str) -> list[bytes]:
    """List the keys that match."""
    found = server.command("KEYS", pattern)
    assert isinstance(found, list)
    return [key for key in found if isinstance(key, bytes)]


def left(server: Redis, name: str) -> int:
    """Tell for how many ms Redis keeps the lock; -2 if it does not have it."""
    ends = -2
    for key in keys(server, f"lockfast:*={name}"):
        reply = server.command("PTTL", key)
        assert isinstance(reply, int)
        ends = reply
    return ends


def drop(server: Redis, name: str) -> None:
    """Delete one lock, as an operator would."""
    for key in keys(server, f"lockfast:*={name}"):
        server.command("DEL", key)
