"""Translation of messages to the arguments of the engine."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from lockfast.engines.remote.messages import Asked
from lockfast.port import Ask, Kind, Shape

LONGEST_CALL = 5.0  # seconds that a call of the engine may take


def ask_of(asked: Asked, epoch: int) -> Ask:
    """Return the claim of a message. Raise `ValueError` if there can be no such claim.

    Its `not_after` is that of a claim which must not be made.
    """
    shape = shape_of(asked.name, asked.ttl, asked.kind, asked.capacity, asked.weight)
    ask = Ask(asked.id, shape, asked.queue, 0.0, asked.payload)
    ask.epoch = epoch
    ask.ticket = asked.ticket
    ask.granted = asked.granted
    ask.fixed = asked.not_after
    return ask


def departs(asked: Asked) -> float:
    """Return how many seconds after the end of the connection a claim ends. 0: with its ttl."""
    return asked.on_disconnect if asked.on_disconnect < asked.ttl else 0.0


def has_foreign(asks: Sequence[Asked], client: str) -> bool:
    """Return whether one of the claims is another client's. Ids are public: see `identity`."""
    for asked in asks:  # noqa: SIM110  # it costs a third of `any`
        if not asked.id.startswith(client):
            return True
    return False


def deadline_of(within: float, now: float) -> float:
    """Return the deadline of a request that its client waits `within` seconds for."""
    return now + min(within, LONGEST_CALL)


@lru_cache(4096)  # the same claim comes again with each renewal, and the same lock with each claim
def shape_of(name: str, ttl: float, kind: int, capacity: int, weight: int) -> Shape:
    """Return what a claim is for. Raise `ValueError` if there can be no such lock."""
    return Shape(name, ttl, Kind(kind), capacity, weight)
