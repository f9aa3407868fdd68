"""Types of code that runs in steps, and says after each step what it waits for."""

from __future__ import annotations

from collections.abc import Generator
from typing import Protocol

READ, WRITE = 1, 2
Steps = Generator[int, None, None]
"""Yields READ, WRITE or both. Continue it once the socket is ready for one of them."""


class Socket(Protocol):
    """An object with a descriptor that a transport can wait for."""

    def fileno(self) -> int:
        """Return the descriptor. While connecting, it may change after each step."""
