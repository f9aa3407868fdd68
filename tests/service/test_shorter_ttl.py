"""A client that asks again for its claim, with a shorter ttl than before.

An honest one never does. But an answer that counts as malformed closes the connection to the
engine, which all clients of a replica share: their renewals fail too.
"""

from __future__ import annotations

from lockfast.engines.redis import replies
from lockfast.engines.remote import replies as remote
from lockfast.engines.remote.messages import Said, Stood
from lockfast.engines.sql import words
from lockfast.port import Ask, Shape, Standing

SHAPE = Shape("name", 1.0)


def test_redis_has_an_answer() -> None:
    ask = Ask(f"{1:032x}", SHAPE, queue=True, not_after=0.0, payload=b"")
    found = replies.standing([b"5", 1, 30_000, 0, 0, 5, -1], ask)
    assert found.granted
    assert 0.9 < found.left <= SHAPE.ttl


def test_sql_has_an_answer() -> None:
    found = words.standing([b"5", b"t", b"30000000", b"0", b"0", b"5"], SHAPE)
    assert found is not None
    assert found.left == SHAPE.ttl


def test_a_client_of_the_service_never_believes_in_more_than_its_ttl() -> None:
    ask = Ask(f"{1:032x}", SHAPE, queue=True, not_after=0.0, payload=b"")
    stood = Stood(5, True, 30.0)  # noqa: FBT003  # as the message has it
    (found,) = remote.said("a service", Said(1, [stood]), [ask])
    assert isinstance(found, Standing)
    assert found.left == SHAPE.ttl
