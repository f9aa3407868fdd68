"""Group commit over all connections: what goes in one call, and in which order."""

from __future__ import annotations

import asyncio

from lockfast.engines.remote.messages import Claim, Gone, Renew, Resign, Said
from lockfast.errors import EngineRefused, EngineUnavailable
from lockfast.service import collector
from lockfast.service.collector import AGE, SIZE
from lockfast.service.replica import Replica
from tests.service.peers import Held, Peer, on_a_replica, settle


def claim(peer: Peer, n: int, *names: str, within: float = 2.0) -> None:
    peer.send(Claim(n, within, [peer.new(name) for name in names]))


@on_a_replica
async def test_what_arrives_in_one_moment_goes_in_one_call(replica: Replica, held: Held) -> None:
    peers = [Peer(replica) for _ in range(3)]
    for place, peer in enumerate(peers):
        peer.greet()
        claim(peer, 1, f"a{place}")
    await settle()
    assert held.of("claim") == [["a0", "a1", "a2"]]
    assert all(isinstance(peer.read(), Said) for peer in peers)


@on_a_replica
async def test_what_arrives_while_a_call_is_under_way_is_collected(
    replica: Replica, held: Held
) -> None:
    held.holding = {"claim"}
    peer = Peer(replica)
    peer.greet()
    for n, name in enumerate("abcd"):
        claim(peer, n, name)
        await settle()
    assert held.of("claim") == [["a"]]
    held.let_go()
    await settle()
    assert held.of("claim") == [["a"], ["b", "c", "d"]]


@on_a_replica
async def test_claims_that_are_sent_again_do_not_wait_for_calls_that_hang(
    replica: Replica, held: Held
) -> None:
    held.failures.append(EngineRefused("one of them"))
    peer = Peer(replica)
    peer.greet()
    claim(peer, 1, "a", "b", "c", "d")
    held.holding = {"claim"}
    await settle()
    held.gates[0].set()  # the call that is refused
    await settle()
    assert held.of("claim")[1:] == [["a"]]
    await asyncio.sleep(4 * AGE)
    assert held.of("claim")[1:] == [["a"], ["b"], ["c"], ["d"]]
    held.let_go()


@on_a_replica
async def test_a_call_carries_a_limited_number(replica: Replica, held: Held) -> None:
    held.holding = {"claim"}
    peers = [Peer(replica) for _ in range(2)]
    for place, peer in enumerate(peers):
        peer.greet()
        claim(peer, 1, *(f"{place}-{each}" for each in range(SIZE)))
        claim(peer, 2, f"{place}-more")
    await settle()
    assert list(map(len, held.of("claim"))) == [SIZE]
    held.let_go()
    await settle()
    assert list(map(len, held.of("claim"))) == [SIZE, SIZE, 2]


@on_a_replica
async def test_claims_of_one_name_go_one_after_the_other_in_their_order(
    replica: Replica, held: Held
) -> None:
    held.holding = {"claim"}
    peers = [Peer(replica) for _ in range(3)]
    for peer in peers:
        peer.greet()
        claim(peer, 1, "a")
    claim(peers[0], 2, "b", "a")
    await settle()
    assert held.of("claim") == [["a", "b"]]
    for calls in (2, 3, 4):
        held.gates[-1].set()
        await settle()
        assert held.of("claim")[1:] == [["a"]] * (calls - 1)
    held.let_go()
    await settle()
    assert [ask.id[:22] for ask in held.asks if ask.shape.name == "a"] == [
        *(peer.client for peer in peers),
        peers[0].client,
    ]
    assert replica.claims._claims._keys == {}


@on_a_replica
async def test_two_claims_of_one_name_in_one_message_are_both_made(
    replica: Replica, held: Held
) -> None:
    peer = Peer(replica)
    peer.greet()
    said = await peer.claim(peer.new("a"), peer.new("a"))
    assert [stood is not None and stood.granted for stood in said.results] == [True, False]
    assert held.of("claim") == [["a"], ["a"]]


@on_a_replica
async def test_a_call_that_does_not_return_delays_the_others_only_for_a_moment(
    replica: Replica, held: Held
) -> None:
    held.holding = {"claim"}
    peer = Peer(replica)
    peer.greet()
    for n, name in enumerate("abc"):
        claim(peer, n, name)
        await settle()
    assert held.of("claim") == [["a"]]
    await asyncio.sleep(AGE * 1.3)
    assert held.of("claim") == [["a"], ["b", "c"]]


@on_a_replica
async def test_beside_a_call_that_does_not_return_nothing_waits(
    replica: Replica, held: Held
) -> None:
    held.holding = {"claim"}
    peer = Peer(replica)
    peer.greet()
    claim(peer, 0, "a")
    await settle()
    held.holding.clear()
    claim(peer, 1, "b")
    await asyncio.sleep(AGE * 1.3)
    for n, name in enumerate("cd"):
        claim(peer, 2 + n, name)
        await settle()
    assert held.of("claim") == [["a"], ["b"], ["c"], ["d"]]


@on_a_replica
async def test_a_call_that_returns_late_is_not_followed_by_another_one(
    replica: Replica, held: Held
) -> None:
    """Otherwise each call that took long would leave one more that is under way for good."""
    held.holding = {"claim"}
    peer = Peer(replica)
    peer.greet()
    for n, name in enumerate("ab"):
        claim(peer, n, name)
        await settle()
    await asyncio.sleep(AGE * 1.3)
    claim(peer, 2, "c")
    held.gates[0].set()
    await settle()
    assert held.of("claim") == [["a"], ["b"]]
    held.gates[1].set()
    await settle()
    assert held.of("claim") == [["a"], ["b"], ["c"]]
    held.let_go()


@on_a_replica
async def test_calls_that_do_not_return_are_limited(replica: Replica, held: Held) -> None:
    held.holding = {"claim"}
    peer = Peer(replica)
    peer.greet()
    for n in range(collector.MOST + 2):
        claim(peer, n, f"a{n}")
        await settle()
        if n > 1:
            await asyncio.sleep(AGE * 1.2)
    assert len(held.of("claim")) == collector.MOST


@on_a_replica
async def test_a_refused_call_is_repeated_claim_by_claim(replica: Replica, held: Held) -> None:
    peers = [Peer(replica) for _ in range(3)]
    held.failures += [EngineRefused("one of them"), EngineRefused("this one")]
    for place, peer in enumerate(peers):
        peer.greet()
        claim(peer, 1, f"a{place}")
    replies = [await peer.next() for peer in peers]
    assert held.of("claim") == [["a0", "a1", "a2"], ["a0"], ["a1"], ["a2"]]
    assert [ask.alone for ask in held.asks] == [True] * 6
    said = [reply for reply in replies if isinstance(reply, Said)]
    assert [len(each.faults) for each in said] == [1, 0, 0]
    assert said[0].faults[0].why == "this one"


@on_a_replica
async def test_resignations_are_collected_apart_by_doubt(replica: Replica, held: Held) -> None:
    peer = Peer(replica)
    peer.greet()
    asks = [peer.new(name) for name in "abcd"]
    await peer.claim(*asks)
    for n, ask in enumerate(asks):
        peer.send(Resign(n, 1.0, [ask], doubt=n > 1))
    replies = [await peer.next() for _ in asks]
    assert all(isinstance(reply, Gone) and reply.results == [True] for reply in replies)
    ids = [ask.id for ask in asks]
    assert (held.of("resign"), held.of("bury")) == ([ids[:2]], [ids[2:]])


@on_a_replica
async def test_a_claim_is_never_in_a_call_of_resignations_twice(
    replica: Replica, held: Held
) -> None:
    peer = Peer(replica)
    peer.greet()
    ask = peer.new("a")
    await peer.claim(ask)
    for n in (1, 2):
        peer.send(Resign(n, 1.0, [ask]))
    assert [await peer.next(), await peer.next()] == [Gone(1, [True]), Gone(2, [False])]
    assert held.of("resign") == [[ask.id], [ask.id]]


@on_a_replica
async def test_what_was_not_sent_in_time_was_not_sent(replica: Replica, held: Held) -> None:
    held.holding = {"claim"}
    peer, other = Peer(replica), Peer(replica)
    peer.greet()
    other.greet()
    claim(peer, 1, "a")
    await settle()
    claim(other, 1, "a", within=0.01)
    await asyncio.sleep(0.02)
    held.let_go()
    reply = await other.next()
    assert isinstance(reply, Said)
    assert [(fault.kind, fault.sent) for fault in reply.faults] == [("unavailable", False)]
    assert held.of("claim") == [["a"]]


@on_a_replica
async def test_claims_of_a_client_that_has_left_are_not_sent_but_resignations_are(
    replica: Replica, held: Held
) -> None:
    held.holding = {"claim", "resign"}
    peer, other = Peer(replica), Peer(replica)
    peer.greet()
    other.greet()
    ask, more = peer.new("a"), peer.new("b")
    claim(other, 1, "a")
    await settle()
    peer.send(Claim(1, 1.0, [ask]))
    for n, each in enumerate([ask, more, ask]):
        peer.send(Resign(n, 1.0, [each]))
    peer.connection.end()
    claim(other, 2, "a")
    held.let_go()
    await settle()
    assert [held_ask.id[:22] for held_ask in held.asks if held_ask.shape.name == "a"][:1] == [
        other.client
    ]
    assert held.of("claim") == [["a"], ["a"]]
    assert held.of("resign") == [[ask.id, more.id], [ask.id]]


@on_a_replica
async def test_the_deadline_of_a_call_is_the_latest(replica: Replica, held: Held) -> None:
    peer = Peer(replica)
    peer.greet()
    claim(peer, 1, "a", within=1.0)
    claim(peer, 2, "b", within=3.0)
    claim(peer, 3, "c", within=2.0)
    await settle()
    assert abs(held.deadlines[0] - replica._runtime.now() - 3.0) < 0.5


@on_a_replica
async def test_an_unavailable_engine_fails_each_request_of_a_call(
    replica: Replica, held: Held
) -> None:
    peers = [Peer(replica) for _ in range(2)]
    held.failures.append(EngineUnavailable("gone", sent=True))
    for peer in peers:
        peer.greet()
        claim(peer, 1, peer.client)
    for peer in peers:
        reply = await peer.next()
        assert isinstance(reply, Said)
        assert [fault.sent for fault in reply.faults] == [True]
    assert len(held.of("claim")) == 1


@on_a_replica
async def test_a_wrong_number_of_answers_fails_the_call(replica: Replica, held: Held) -> None:
    async def few(_asks: object, _deadline: float) -> list[bool]:
        await asyncio.sleep(0)
        return []

    peer = Peer(replica)
    peer.greet()
    held.renew = few  # type: ignore[assignment,method-assign]
    replica.claims._claims._send = few
    asks = [peer.new("a")]
    for request in (Claim(1, 1.0, asks), Renew(2, 1.0, asks, urgent=True)):
        peer.send(request)
        reply = await peer.next()
        assert isinstance(reply, Said)
        assert [(fault.kind, fault.sent) for fault in reply.faults] == [("unavailable", True)]
