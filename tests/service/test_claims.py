"""Requests about claims: times, refusals of one claim, and an engine that is unavailable."""

from __future__ import annotations

from lockfast.engines.remote.messages import Claim, Gone, Resign, Said
from lockfast.errors import EngineRefused, EngineUnavailable
from lockfast.port import LONGEST_WAIT, TOMB_MARGIN, Kind
from lockfast.service.replica import Replica
from tests.service.peers import Held, Peer, in_front_of_memory, on_a_replica, settle


@on_a_replica
async def test_a_claim_without_a_time_is_not_made_and_learns_the_time(
    replica: Replica, held: Held
) -> None:
    peer = Peer(replica)
    peer.greet()
    said = await peer.claim(peer.new("a", not_after=None))
    assert said.results == [None]
    assert not said.faults
    assert said.now is not None
    assert held.calls == []


@on_a_replica
async def test_a_claim_whose_time_is_over_is_dead(replica: Replica, held: Held) -> None:
    peer = Peer(replica)
    peer.greet()
    said = await peer.claim(peer.new("a", not_after=held.memory.clock() - 0.01))
    assert said.results == [None]
    assert not said.faults


@on_a_replica
async def test_the_engine_gets_the_clients_time_as_it_is(replica: Replica, held: Held) -> None:
    held.memory.clock = lambda: 5_000_000.0  # the engine's clock is not the local one
    peer = Peer(replica)
    peer.greet()
    replica.claims._now = lambda: 100.0
    replica.claims._claims._now = lambda: 100.0
    await peer.claim(peer.new("a", not_after=5_000_004.0))
    await peer.claim(peer.new("b", not_after=5_000_000.0 + 3600.0))
    # Nobody can choose a later time than an honest client would: the engine stores tombstones.
    assert [ask.fixed for ask in held.asks] == [5_000_004.0, 5_000_011.0]
    assert [ask.not_after for ask in held.asks] == [104.0, 100.0 + LONGEST_WAIT]


@on_a_replica
async def test_a_tombstone_stands_until_the_claims_end_however_late_the_time_was_read(
    replica: Replica, held: Held
) -> None:
    """A replica that was paused for a minute takes the engine's time for one a minute earlier."""
    held.memory.clock = lambda: 5_000_000.0
    peer = Peer(replica)
    peer.greet()
    for seconds in (60.0, 86_400.0):
        peer.send(Resign(9, 5.0, [peer.new("a", not_after=5_000_000.0 + seconds)], doubt=True))
        await peer.next()
    assert [ask.fixed for ask in held.asks] == [5_000_060.0, 5_003_600.0]


@on_a_replica
async def test_the_engine_learns_what_the_client_knows(replica: Replica, held: Held) -> None:
    peer = Peer(replica, epoch=7)
    peer.greet()
    await peer.claim(peer.new("a", ticket=5, granted=True, queue=False, payload=b"who"))
    ask = held.asks[0]
    assert (ask.epoch, ask.ticket, ask.granted, ask.queue) == (7, 5, True, False)
    assert ask.payload == b"who"


@on_a_replica
async def test_a_replica_that_does_not_know_the_time_asks_once_for_all_claims(
    replica: Replica, held: Held
) -> None:
    held.hidden = True
    peer = Peer(replica)
    assert peer.greet().now is None
    asks = [peer.new("a"), peer.new("b"), peer.new("c", not_after=None)]
    said = await peer.claim(*asks)
    assert [stood is not None for stood in said.results] == [True, True, False]
    assert not said.faults
    assert said.now is not None
    assert len(held.of("inspect")) == 1


@on_a_replica
async def test_a_claim_fails_if_the_time_cannot_be_learned(replica: Replica, held: Held) -> None:
    held.hidden = held.cut = True
    peer = Peer(replica)
    peer.greet()
    said = await peer.claim(peer.new("a"), peer.new("b"))
    assert [(fault.kind, fault.sent, fault.at) for fault in said.faults] == [
        ("unavailable", False, 0),
        ("unavailable", False, 1),
    ]
    assert len(held.of("inspect")) == 1
    held.cut = False
    assert not (await peer.claim(peer.new("a"))).faults


@on_a_replica
async def test_of_several_clocks_the_earliest_time_is_told(replica: Replica, held: Held) -> None:
    times = {"a": 5.0, "b": 3.0, "c": 4.0}
    peer = Peer(replica)
    peer.greet()
    held.time = times.get  # type: ignore[method-assign,assignment]
    assert (await peer.claim(*(peer.new(name, not_after=None) for name in "abc"))).now == 3.0
    assert (await peer.claim(peer.new("c", not_after=None))).now == 4.0


@on_a_replica
async def test_a_claim_fails_if_the_engine_never_tells_its_time(
    replica: Replica, held: Held
) -> None:
    held.time = lambda name: None  # type: ignore[method-assign]  # noqa: ARG005
    peer = Peer(replica)
    peer.greet()
    said = await peer.claim(peer.new("a"))
    assert [(fault.kind, fault.sent) for fault in said.faults] == [("unavailable", False)]


@in_front_of_memory
async def test_a_claim_that_cannot_be_does_not_fail_the_others(replica: Replica) -> None:
    peer = Peer(replica)
    peer.greet()
    said = await peer.claim(peer.new("a", weight=2), peer.new("b"), peer.new("c", kind=2))
    assert [stood is not None for stood in said.results] == [False, True, False]
    assert sorted((fault.kind, fault.at) for fault in said.faults) == [
        ("refused", 0),
        ("refused", 2),
    ]


@in_front_of_memory
async def test_a_kind_mismatch_names_both_kinds(replica: Replica) -> None:
    peer = Peer(replica)
    peer.greet()
    await peer.claim(peer.new("a"))
    for names in (["a"], ["b", "a"]):
        said = await peer.claim(
            *(peer.new(name, kind=int(Kind.SEMAPHORE), capacity=3, weight=1) for name in names)
        )
        (fault,) = said.faults
        assert (fault.kind, fault.asked, fault.ruling) == ("kind-mismatch", "semaphore", "lock")
        assert fault.at == len(names) - 1


@on_a_replica
async def test_an_unavailable_engine_is_reported_and_no_claim_is_repeated(
    replica: Replica, held: Held
) -> None:
    peer = Peer(replica)
    peer.greet()
    for sent in (True, False):
        held.failures.append(EngineUnavailable("gone", sent=sent))
        said = await peer.claim(peer.new("a"), peer.new("b"))
        assert [(fault.sent, fault.at) for fault in said.faults] == [(sent, 0), (sent, 1)]
    assert held.of("claim") == [["a", "b"], ["a", "b"]]


@on_a_replica
async def test_an_error_that_no_engine_may_raise_leaves_the_outcome_unknown(
    replica: Replica, held: Held
) -> None:
    peer = Peer(replica)
    peer.greet()
    held.failures.append(ZeroDivisionError("a bug"))
    said = await peer.claim(peer.new("a"))
    assert [(fault.kind, fault.sent) for fault in said.faults] == [("unavailable", True)]
    assert "a bug" not in said.faults[0].why
    assert not (await peer.claim(peer.new("b"))).faults


@on_a_replica
async def test_a_resignation_in_doubt_leaves_a_tombstone(replica: Replica, held: Held) -> None:
    peer = Peer(replica)
    peer.greet()
    ask = peer.new("a")
    peer.send(Resign(1, 1.0, [ask], doubt=True))
    assert await peer.next() == Gone(1, [False])
    assert held.asks[0].fixed == ask.not_after
    assert abs(held.asks[0].not_after - (ask.not_after or 0.0)) < 0.1
    assert (await peer.claim(ask)).results == [None]
    assert held.memory.queues._tombs[ask.id] == held.asks[0].not_after + TOMB_MARGIN


@on_a_replica
async def test_a_resignation_in_doubt_without_a_time_gets_the_longest_tombstone(
    replica: Replica, held: Held
) -> None:
    held.hidden = True
    peer = Peer(replica)
    peer.greet()
    peer.send(Resign(1, 1.0, [peer.new("a", not_after=None)], doubt=True))
    assert await peer.next() == Gone(1, [False])
    assert abs(held.asks[0].not_after - held.memory.clock() - LONGEST_WAIT) < 1
    assert held.asks[0].fixed is not None


@on_a_replica
async def test_a_resignation_without_doubt_needs_no_time(replica: Replica, held: Held) -> None:
    peer = Peer(replica)
    peer.greet()
    ask = peer.new("a")
    await peer.claim(ask)
    held.hidden = True
    peer.send(Resign(2, 1.0, [ask]))
    assert await peer.next() == Gone(2, [True])
    assert held.of("inspect") == []


@on_a_replica
async def test_a_resignation_that_fails_is_reported_for_its_claim(
    replica: Replica, held: Held
) -> None:
    peer = Peer(replica)
    peer.greet()
    held.refusal = EngineRefused("no")
    peer.send(Resign(1, 1.0, [peer.new("a")]))
    reply = await peer.next()
    assert isinstance(reply, Gone)
    assert reply.results == [False]
    assert [(fault.kind, fault.at) for fault in reply.faults] == [("refused", 0)]


@on_a_replica
async def test_the_deadline_is_the_clients_and_at_most_five_seconds(
    replica: Replica, held: Held
) -> None:
    peer = Peer(replica)
    peer.greet()
    for within in (0.5, 1e6):
        peer.send(Claim(1, within, [peer.new("a")]))
        reply = await peer.next()
        assert isinstance(reply, Said)
    await settle()
    local = replica._runtime.now()
    assert abs(held.deadlines[0] - local - 0.5) < 0.2
    assert abs(held.deadlines[1] - local - 5.0) < 0.2
