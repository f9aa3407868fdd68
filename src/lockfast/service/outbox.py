"""The frames that wait to be sent on one connection, and how many there may be."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from lockfast.engines.remote.messages import LARGEST_REPLY

MANY = 2**20  # bytes that wait; while there are more, nothing is read from the client
WAKES = 1_000  # wakes that wait


class Outbox:
    """Frames in the order in which they are sent.

    A client cannot stop the wakes that come to it. If it does not read them, its connection ends.
    It connects again, and asks for every waiter. The replies are as many as its requests, which are
    bounded. Only their size could be too much.
    """

    def __init__(self, ready: Callable[[], None]) -> None:
        """Begin empty. `ready` is called when there is something to send."""
        self._ready = ready
        self._frames: deque[tuple[bytes, bool]] = deque()
        self._wakes = 0
        self.size = 0
        """How many bytes wait."""
        self.ended: tuple[int, str] | None = None
        """The code and reason with which the connection is closed after the last frame."""

    def add(self, frame: bytes, *, wake: bool = False) -> bool:
        """Send a frame. Return False if too much waits: then the connection must end."""
        if self.ended is not None:
            return True
        if self.size > LARGEST_REPLY or (wake and self._wakes >= WAKES):
            return False
        self._frames.append((frame, wake))
        self._wakes += wake
        self.size += len(frame)
        self._ready()
        return True

    def take(self) -> bytes | None:
        """Return the next frame, which counts as waiting until `sent`. None: there is none."""
        return self._frames[0][0] if self._frames else None

    def sent(self) -> None:
        """Forget the frame that `take` has returned: it was given to the transport."""
        if self._frames:  # `end` may have dropped it meanwhile
            frame, wake = self._frames.popleft()
            self._wakes -= wake
            self.size -= len(frame)

    def end(self, code: int, reason: str, *, drop: bool = False) -> None:
        """Close the connection after the last frame, or now if they are dropped."""
        if self.ended is not None:
            return
        if drop:
            self._frames.clear()
            self._wakes = self.size = 0
        self.ended = code, reason
        self._ready()
