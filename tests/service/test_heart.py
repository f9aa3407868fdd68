"""The heart of a replica: the window of renewals, and that nothing ends it."""

from __future__ import annotations

import asyncio

import pytest

from lockfast.engines.remote.messages import Asked, Claim, Renew, Said
from lockfast.errors import EngineRefused, EngineUnavailable
from lockfast.service.heart import SIZE, WINDOW
from lockfast.service.replica import Replica
from tests.service.peers import Held, Peer, on_a_replica, settle


def renew(peer: Peer, n: int, *asks: Asked, urgent: bool = False, within: float = 2.0) -> None:
    peer.send(Renew(n, within, list(asks), urgent=urgent))


@on_a_replica
async def test_renewals_of_all_connections_are_collected_from_the_first_one(
    replica: Replica, held: Held
) -> None:
    loop = asyncio.get_running_loop()
    peers = [Peer(replica) for _ in range(3)]
    asks = [peer.new(peer.client) for peer in peers]
    for peer in peers:
        peer.greet()
    began = loop.time()
    for peer, ask in zip(peers, asks, strict=True):
        renew(peer, 1, ask)
        await asyncio.sleep(WINDOW / 5)
    assert held.of("renew") == []
    for peer in peers:
        assert isinstance(await peer.next(), Said)
    assert held.of("renew") == [[ask.id for ask in asks]]
    assert WINDOW * 0.9 < loop.time() - began < WINDOW * 3


@on_a_replica
async def test_an_urgent_renewal_goes_at_once_and_takes_the_others_along(
    replica: Replica, held: Held
) -> None:
    peer, other = Peer(replica), Peer(replica)
    peer.greet()
    other.greet()
    await asyncio.sleep(0.01)
    first, second = peer.new("a"), other.new("b")
    renew(peer, 1, first)
    renew(other, 1, second, urgent=True)
    await settle()
    assert held.of("renew") == [[first.id, second.id]]


@on_a_replica
async def test_an_impatient_renewal_does_not_wait_for_the_window(
    replica: Replica, held: Held
) -> None:
    peer = Peer(replica)
    peer.greet()
    renew(peer, 1, peer.new("a"), within=0.04)
    await asyncio.sleep(0.03)
    assert len(held.of("renew")) == 1


@on_a_replica
async def test_a_call_renews_a_limited_number_of_claims(replica: Replica, held: Held) -> None:
    peers = [Peer(replica) for _ in range(6)]
    for peer in peers:
        peer.greet()
        renew(peer, 1, *(peer.new(f"{each}") for each in range(64)))
    for peer in peers:
        assert isinstance(await peer.next(), Said)
    assert list(map(len, held.of("renew"))) == [SIZE, 6 * 64 - SIZE]


@on_a_replica
async def test_no_claim_is_renewed_twice_in_one_call(replica: Replica, held: Held) -> None:
    peer = Peer(replica)
    peer.greet()
    again = Peer(replica, peer.secret, epoch=2)
    again.greet()
    ask, more = peer.new("a"), peer.new("b")
    renew(peer, 1, ask)
    renew(again, 1, ask, more)
    assert isinstance(await peer.next(), Said)
    assert isinstance(await again.next(), Said)
    assert held.of("renew") == [[ask.id, more.id], [ask.id]]
    assert [each.epoch for each in held.asks] == [1, 2, 2]


@on_a_replica
async def test_patient_renewals_do_not_share_a_call_with_impatient_ones(
    replica: Replica, held: Held
) -> None:
    peer = Peer(replica)
    peer.greet()
    slow, fast, middle = (peer.new(name) for name in "abc")
    renew(peer, 1, slow, within=5.0, urgent=True)
    renew(peer, 2, fast, within=0.5)
    renew(peer, 3, middle, within=0.9)
    for _ in range(3):
        await peer.next()
    assert held.of("renew") == [[fast.id, middle.id], [slow.id]]
    assert held.deadlines[1] - held.deadlines[0] > 3.0


@on_a_replica
async def test_a_refused_call_is_repeated_claim_by_claim(replica: Replica, held: Held) -> None:
    peers = [Peer(replica) for _ in range(3)]
    asks = [peer.new(f"{place}") for place, peer in enumerate(peers)]
    for peer, ask in zip(peers, asks, strict=True):
        peer.greet()
        await peer.claim(ask)
    held.failures += [EngineRefused("one of them"), EngineRefused("this one")]
    for peer, ask in zip(peers, asks, strict=True):
        renew(peer, 2, ask)
    replies = [await peer.next() for peer in peers]
    ids = [ask.id for ask in asks]
    assert held.of("renew") == [ids, *([each] for each in ids)]
    assert [len(reply.faults) for reply in replies if isinstance(reply, Said)] == [1, 0, 0]


@on_a_replica
async def test_an_unavailable_engine_does_not_end_the_heart(replica: Replica, held: Held) -> None:
    peer = Peer(replica)
    peer.greet()
    ask = peer.new("a")
    await peer.claim(ask)
    for error, sent in [
        (EngineUnavailable("gone", sent=False), False),
        (ZeroDivisionError("a bug"), True),
    ]:
        held.failures.append(error)
        renew(peer, 1, ask, urgent=True)
        reply = await peer.next()
        assert isinstance(reply, Said)
        assert [(fault.kind, fault.sent) for fault in reply.faults] == [("unavailable", sent)]
    renew(peer, 2, ask, urgent=True)
    reply = await peer.next()
    assert isinstance(reply, Said)
    assert not reply.faults


@on_a_replica
async def test_renewals_go_on_while_listening_fails(replica: Replica, held: Held) -> None:
    async def broken(_deadline: float | None) -> list[object]:
        await asyncio.sleep(0)
        raise ZeroDivisionError("a bug")

    held.listen = broken  # type: ignore[assignment,method-assign]
    peer = Peer(replica)
    peer.greet()
    ask = peer.new("a")
    await peer.claim(ask)
    renew(peer, 2, ask)
    reply = await peer.next()
    assert isinstance(reply, Said)
    assert not reply.faults


@on_a_replica
async def test_what_was_not_renewed_in_time_was_not_sent(replica: Replica, held: Held) -> None:
    held.holding = {"renew"}
    peer = Peer(replica)
    peer.greet()
    renew(peer, 1, peer.new("a"), urgent=True)
    await settle()
    renew(peer, 2, peer.new("b"), urgent=True, within=0.01)
    await asyncio.sleep(0.02)
    held.let_go()
    replies = [await peer.next(), await peer.next()]
    late = next(reply for reply in replies if isinstance(reply, Said) and reply.n == 2)
    assert [(fault.kind, fault.sent) for fault in late.faults] == [("unavailable", False)]
    assert len(held.of("renew")) == 1


@on_a_replica
async def test_renewals_of_a_client_that_has_left_are_not_sent(
    replica: Replica, held: Held
) -> None:
    peer, other = Peer(replica), Peer(replica)
    peer.greet()
    other.greet()
    ask = other.new("b")
    renew(peer, 1, peer.new("a"))
    renew(other, 1, ask)
    peer.connection.end()
    await other.next()
    assert held.of("renew") == [[ask.id]]


@on_a_replica
async def test_nothing_is_renewed_that_no_client_has_asked_for(
    replica: Replica, held: Held
) -> None:
    peer = Peer(replica)
    peer.greet()
    await peer.claim(peer.new("a", ttl=0.2))
    await asyncio.sleep(0.3)
    assert held.of("renew") == []
    assert held.memory.queues.entries("a", held.memory.clock()) == []


@pytest.mark.parametrize("verb", ["claim", "renew", "resign"])
def test_closing_during_a_request_ends_in_time(verb: str) -> None:
    @on_a_replica
    async def scene(replica: Replica, held: Held) -> None:
        held.holding = {verb}
        peer = Peer(replica)
        peer.greet()
        ask = peer.new("a")
        peer.send(Claim(1, 5.0, [ask]) if verb == "claim" else Renew(1, 5.0, [ask], urgent=True))
        await settle()
        began = asyncio.get_running_loop().time()
        await replica.close()
        assert asyncio.get_running_loop().time() - began < 3.0
        assert peer.connection.outbox.ended is not None

    scene()
