"""Replies of etcd that cannot be read, and keys that somebody else has written."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lockfast
from lockfast.engines.etcd import claim_transaction, messages
from lockfast.engines.etcd.protobuf import Malformed, fields, number, text
from lockfast.errors import EngineRefused, LockfastError
from lockfast.port import Kind, Shape
from lockfast.testing import MODES, Stage
from tests.contract.benches import EtcdBench
from tests.servers import EtcdCluster
from tests.servers.etcd import encoded

LOCK, PERMITS = (
    claim_transaction.Form(Shape("x", 5.0)),
    claim_transaction.Form(Shape("x", 5.0, Kind.SEMAPHORE, 3, 1)),
)
ROUNDS = 120


@pytest.fixture(scope="module")
def cluster() -> Iterator[EtcdCluster]:
    with EtcdCluster() as cluster:
        yield cluster


def spoiled(reply: bytes, chance: random.Random) -> bytes:
    """Spoil a reply, or leave it."""
    place = chance.randrange(len(reply) + 1)
    return chance.choice(
        [
            reply,
            reply,
            b"",
            reply[:place],
            reply[:place] + chance.randbytes(2) + reply[place + 2 :],
            chance.randbytes(chance.randrange(40)),
        ]
    )


@pytest.mark.parametrize("mode", sorted(MODES))
def test_a_malformed_reply_is_an_engine_that_is_unavailable(
    cluster: EtcdCluster, mode: str
) -> None:
    """Whatever etcd says, only errors of lockfast come out, and no lease that it did not grant."""
    stage = Stage(EtcdBench(cluster), MODES[mode]())
    stage.bench.wipe()
    chance = random.Random(5)  # noqa: S311  # to be played again

    async def play() -> None:
        sane, actor = stage.actor(), stage.actor()
        held = sane.ask("x", ttl=60)
        await sane.claim(held)
        engine: Any = actor.engine
        send = engine._transport._send

        async def spoil(*args: Any) -> bytes | None:  # noqa: ANN401  # handed on
            reply = await send(*args)
            # None: what gRPC gives for a stream that ends well and without a message.
            return spoiled(reply, chance) if chance.random() < 0.95 else None

        engine._transport._send = spoil
        kept = actor.ask("kept", ttl=60)
        for number_ in range(ROUNDS):
            ask = actor.ask("x", ttl=60, queue=number_ % 3 > 0)
            other = actor.ask(f"y {number_}", ttl=60, capacity=3, queue=number_ % 2 > 0)
            third = actor.ask(f"z {number_}", ttl=60)
            calls: list[Coroutine[Any, Any, object]] = [
                engine.claim(ask, actor.deadline),
                engine.claim(kept, actor.deadline),
                engine.claim_all([other, third], actor.deadline),
                engine.renew([ask, kept], actor.deadline),
                engine.inspect("", None, exact=False),
                engine.guarantees(actor.deadline),
                engine.listen(stage.bench.now()),
                engine.resign([ask], actor.deadline, doubt=True),
            ]
            for call in calls:
                try:
                    said = await call
                except LockfastError:
                    continue
                assert getattr(said, "ticket", 1) < 2**53
        engine._transport._send = send
        after = actor.ask("after")
        assert (await actor.claim(after)).granted
        assert [entry.id for entry in await sane.entries("x") if entry.granted] == [held.id]

    stage.mode.run(play())
    stage.mode.run(stage.clear())
    stage.mode.close()


LEAF = st.integers(-(2**63), 2**63 - 1) | st.binary(max_size=12)
TREE = st.recursive(
    st.lists(st.tuples(st.integers(1, 20), LEAF), max_size=5),
    lambda inner: st.lists(st.tuples(st.integers(1, 20), LEAF | inner), max_size=5),
    max_leaves=20,
)


def written(items: Any) -> bytes:  # noqa: ANN401  # a tree
    """Write a tree of fields."""
    return b"".join(
        number(field, said)
        if isinstance(said, int)
        else text(field, said if isinstance(said, bytes) else written(said))
        for field, said in items
    )


READERS: list[Callable[[bytes], object]] = [
    lambda said: list(fields(said)),
    lambda said: messages.rows(messages.found(said)),
    lambda said: messages.done(said).of(2),
    messages.deleted,
    messages.put_at,
    messages.term,
    messages.heard,
    lambda said: claim_transaction.claimed(said, LOCK),
    lambda said: claim_transaction.claimed(said, PERMITS),
    claim_transaction.squeezed,
]


@settings(max_examples=400, deadline=None)
@given(st.binary(max_size=80) | TREE.map(written), st.integers(0, 200))
def test_what_cannot_be_read_is_malformed_or_foreign_and_nothing_else(
    said: bytes, length: int
) -> None:
    for read in READERS:
        for message in (said, said[:length]):
            try:
                read(message)
            except (Malformed, EngineRefused):
                continue


def test_a_number_without_an_end_is_given_up_at_once() -> None:
    began = time.monotonic()
    with pytest.raises(Malformed):
        list(fields(b"\x08" + b"\x80" * 1_000_000 + b"\x01"))
    assert time.monotonic() - began < 0.5


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"lockfast/claim/x/" + b"a" * 31 + b"\xff", b"1 1 5000 "),
        (b"lockfast/claim/x", b"1 1 5000 "),
        (b"lockfast/claim/x/" + b"b" * 32, b"5 -3 5000 "),
        (b"lockfast/claim/x/" + b"c" * 32, b"no claim"),
    ],
)
def test_a_key_that_somebody_else_has_written_hides_no_claim(
    cluster: EtcdCluster, key: bytes, value: bytes
) -> None:
    cluster.wipe()
    cluster.nodes[0].post("kv/put", key=encoded(key), value=encoded(value))
    with lockfast.connect(cluster.url) as client, client.lock("y", ttl=5.0):
        assert [each.name for each in client.inspect()] == ["y"]
        if key.startswith(b"lockfast/claim/x/"):
            with pytest.raises(EngineRefused, match="was not written by lockfast"):
                client.lock("x", ttl=5.0).acquire(timeout=1)
    cluster.wipe()
