"""Types of code that runs in steps, and says after each step what it waits for."""

from __future__ import annotations

from collections.abc import Generator

READ, WRITE = 1, 2
Steps = Generator[int, None, None]
"""Yields READ, WRITE or both. Continue it once the socket is ready for one of them."""
