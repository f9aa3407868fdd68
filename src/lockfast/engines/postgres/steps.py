"""What a connection waits for, step by step."""

from __future__ import annotations

from collections.abc import Generator
from typing import Protocol

READ, WRITE = 1, 2
Steps = Generator[int, None, None]
"""Yields READ, WRITE or both: go on once the socket is ready for one of them."""


class Socket(Protocol):
    """What can be waited for."""

    def fileno(self) -> int:
        """Return its descriptor. While connecting, it may be another after each step."""
