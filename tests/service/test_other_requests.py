"""Inspect, record, records and guarantees."""

from __future__ import annotations

import pytest

from lockfast.engines.remote import messages
from lockfast.engines.remote.messages import (
    Done,
    Failed,
    Inspect,
    Page,
    Promise,
    Promised,
    Record,
    Recorded,
    Records,
)
from lockfast.errors import EngineUnavailable
from lockfast.guarantees import Finding, Guarantees, Level
from lockfast.port import Entry, Kind, Standing
from lockfast.port import Page as Found
from lockfast.service import other_requests
from lockfast.service.replica import Replica
from lockfast.service.replies import page, promised, stood
from tests.service.peers import Held, Peer, in_front_of_memory, on_a_replica, settle


@in_front_of_memory
async def test_pages_are_read_one_by_one(replica: Replica) -> None:
    peer = Peer(replica)
    peer.greet()
    asks = [peer.new(f"a{each:03}", payload=b"\xff\x00") for each in range(150)]
    for start in range(0, 150, 50):
        await peer.claim(*asks[start : start + 50])
    peer.send(Inspect(1, "a"))
    first = await peer.next()
    assert isinstance(first, Page)
    assert (len(first.entries), first.entries[0].payload) == (100, b"\xff\x00")
    peer.send(Inspect(2, "a", first.cursor))
    second = await peer.next()
    assert isinstance(second, Page)
    assert (len(second.entries), second.cursor) == (50, None)
    names = [entry.name for each in (first, second) for entry in each.entries]
    assert names == [ask.name for ask in asks]


@in_front_of_memory
async def test_one_name_is_not_a_prefix(replica: Replica) -> None:
    peer = Peer(replica)
    peer.greet()
    await peer.claim(peer.new("a"), peer.new("aa"))
    peer.send(Inspect(1, "a", exact=True))
    reply = await peer.next()
    assert isinstance(reply, Page)
    assert [entry.name for entry in reply.entries] == ["a"]


@in_front_of_memory
async def test_records_of_breaks_are_stored_and_read(replica: Replica) -> None:
    peer = Peer(replica)
    peer.greet()
    peer.send(Record(1, 1.0, "a", "0" * 32, b"first"))
    assert await peer.next() == Done(1)
    peer.send(Record(2, 1.0, "a", "0" * 32, b"second"))
    assert await peer.next() == Done(2)
    peer.send(Records(3, 1.0, "a"))
    assert await peer.next() == Recorded(3, [b"second", b"first"])


@in_front_of_memory
async def test_guarantees_are_those_of_the_engine(replica: Replica) -> None:
    peer = Peer(replica)
    peer.greet()
    peer.send(Promise(1, 1.0))
    reply = await peer.next()
    assert isinstance(reply, Promised)
    assert (reply.engine, reply.level) == ("memory, in this process", 1)


@on_a_replica
async def test_an_error_is_the_reply_to_its_request(replica: Replica, held: Held) -> None:
    peer = Peer(replica)
    peer.greet()
    held.cut = True
    requests: list[messages.Request] = [
        Inspect(0, "a"),
        Record(1, 1.0, "a", "0" * 32, b""),
        Records(2, 1.0, "a"),
    ]
    for n, request in enumerate(requests):
        peer.send(request)
        reply = await peer.next()
        assert isinstance(reply, Failed)
        assert (reply.n, reply.fault.kind, reply.fault.sent) == (n, "unavailable", True)
    held.cut = False
    held.failures += [ValueError("this cursor"), ZeroDivisionError("a bug")]
    for kind, cursor in (("refused", "nonsense"), ("unavailable", None)):
        peer.send(Inspect(7, "a", cursor))
        reply = await peer.next()
        assert isinstance(reply, Failed)
        assert reply.fault.kind == kind
        assert "a bug" not in reply.fault.why


@on_a_replica
async def test_a_name_that_no_lock_can_have_is_refused(replica: Replica, held: Held) -> None:
    peer = Peer(replica)
    peer.greet()
    long = "ä" * 500
    for request in (
        Inspect(1, "", exact=True),
        Records(1, 1.0, long),
        Record(1, 1.0, long, "0" * 32, b""),
    ):
        peer.send(request)
        reply = await peer.next()
        assert isinstance(reply, Failed)
        assert reply.fault.kind == "refused"
    assert held.calls == []


@on_a_replica
async def test_only_some_run_at_once(replica: Replica, held: Held) -> None:
    held.holding = {"inspect"}
    peer = Peer(replica)
    peer.greet()
    for n in range(other_requests.AT_ONCE + 5):
        peer.send(Inspect(n, "a"))
    await settle()
    assert len(held.of("inspect")) == other_requests.AT_ONCE
    held.let_go()
    for _ in range(other_requests.AT_ONCE + 5):
        await peer.next()


def test_what_clients_would_not_read_is_kept_within_their_bounds() -> None:
    entry = Entry("a", "0" * 32, 1, True, Kind.LOCK, 1, 1, -0.5, b"")  # noqa: FBT003
    found = page(1, Found([entry], None, frozenset({2})))
    promise = promised(
        1,
        Guarantees("x" * 5000, Level.FENCED, "y" * 5000, (Finding("s", "r", "z" * 5000),) * 200),
    )
    for message in (found, promise):
        assert messages.reply(messages.encode(message)) == message
    assert found.entries[0].left == 0.0
    late = stood(Standing(1, granted=True, left=-0.1, recheck=-0.1))
    assert (late.left, late.recheck) == (0.0, 0.0)


def test_a_page_that_clients_would_not_read_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_requests, "LARGEST_REPLY", 200)

    @in_front_of_memory
    async def scene(replica: Replica) -> None:
        peer = Peer(replica)
        peer.greet()
        await peer.claim(peer.new("a"), peer.new("ab"))
        peer.send(Inspect(1, "a", exact=True))
        assert isinstance(await peer.next(), Page)
        peer.send(Inspect(2, "a"))
        reply = await peer.next()
        assert isinstance(reply, Failed)
        assert reply.fault.kind == "refused"

    scene()


@on_a_replica
async def test_a_long_error_is_cut(replica: Replica, held: Held) -> None:
    peer = Peer(replica)
    peer.greet()
    held.failures.append(EngineUnavailable("\x00" * 5000, sent=True))
    said = await peer.claim(peer.new("a"))
    assert len(said.faults[0].why) == 4000
