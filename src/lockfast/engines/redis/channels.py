"""Packs SUBSCRIBE and UNSUBSCRIBE commands. No I/O."""

from __future__ import annotations

from collections.abc import Sequence

from lockfast.engines.redis.keys import command

ON, OFF = b"subscribe", b"unsubscribe"


class Change:
    """One SUBSCRIBE or UNSUBSCRIBE command, and how much of it the server has confirmed.

    The server answers with a push for each channel in their order, or with one error reply.
    """

    __slots__ = ("_channels", "_confirmed", "_verb")

    def __init__(self, verb: bytes, channels: Sequence[bytes]) -> None:
        """Note the channels, at least one. `verb`: ON or OFF."""
        self._verb = verb
        self._channels = channels
        self._confirmed = 0

    def packet(self) -> bytes:
        """Pack the command."""
        return command(self._verb.upper(), *self._channels)

    def confirm(self, push: list[object]) -> bool:
        """Return whether a push is the next confirmation of this command."""
        if self.done or push[:2] != [self._verb, self._channels[self._confirmed]]:
            return False
        self._confirmed += 1
        return True

    @property
    def done(self) -> bool:
        """Whether the server has confirmed all channels."""
        return self._confirmed == len(self._channels)
