"""One connection: its greeting, what it refuses, and how much it takes."""

from __future__ import annotations

import asyncio
import json

from hypothesis import given
from hypothesis import strategies as st

from lockfast.engines.remote import messages
from lockfast.engines.remote.messages import (
    Break,
    Claim,
    Failed,
    Gone,
    Hear,
    Hello,
    Inspect,
    Renew,
    Reply,
    Resign,
    Said,
    Welcome,
    Woken,
    encode,
)
from lockfast.port import Wake
from lockfast.runtime.aio import Aio
from lockfast.service.connection import UNANSWERED
from lockfast.service.outbox import WAKES
from lockfast.service.replica import Replica
from tests.service.peers import Held, Peer, in_front_of_memory, in_loop, on_a_replica, settle


def refusal(reply: Reply | None) -> str:
    assert isinstance(reply, Failed)
    assert reply.n == 0
    assert reply.fault.kind == "refused"
    return reply.fault.why


@on_a_replica
async def test_a_greeting_tells_the_name_of_the_client_and_the_time(
    replica: Replica, held: Held
) -> None:
    peer = Peer(replica)
    welcome = peer.greet()
    assert welcome.client == peer.client
    assert welcome.now is not None
    assert abs(welcome.now - held.memory.clock()) < 1


@on_a_replica
async def test_a_greeting_tells_whether_claims_can_go_to_another_replica(
    replica: Replica, held: Held
) -> None:
    assert Peer(replica).greet().moves
    held.bound = True
    assert not Peer(replica).greet().moves


@on_a_replica
async def test_the_first_message_must_be_hello(replica: Replica, held: Held) -> None:
    peer = Peer(replica)
    peer.send(Claim(1, 1.0, [peer.new("a")]))
    assert "hello" in refusal(peer.read())
    assert peer.connection.ended
    await settle()
    assert held.calls == []


@in_front_of_memory
async def test_another_version_is_refused_with_the_one_that_is_known(replica: Replica) -> None:
    peer = Peer(replica)
    peer.send(Hello(99, peer.secret, 1))
    assert f"but {messages.VERSION} is" in refusal(peer.read())
    assert peer.connection.outbox.ended is not None


@in_front_of_memory
async def test_a_second_hello_ends_the_connection(replica: Replica) -> None:
    peer = Peer(replica)
    peer.greet(hear=True)
    peer.send(Hello(messages.VERSION, Peer(replica).secret, 2))
    assert "twice" in refusal(peer.read())
    assert peer.connection not in replica.connections


@in_front_of_memory
async def test_a_message_over_the_limit_ends_the_connection(replica: Replica) -> None:
    peer = Peer(replica)
    peer.greet()
    peer.connection.feed(" " * (messages.LARGEST + 1))
    assert "too large" in refusal(peer.read())


@in_front_of_memory
async def test_fields_that_are_not_known_are_ignored(replica: Replica) -> None:
    peer = Peer(replica)
    peer.connection.feed(
        json.dumps({"t": "hello", "v": 1, "secret": peer.secret, "epoch": 1, "later": [1, {}]})
    )
    assert isinstance(peer.read(), Welcome)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)
TAGS = ["hello", "hear", "claim", "renew", "resign", "break", "record", "inspect", "guarantees"]
FIELDS = ["v", "n", "secret", "epoch", "within", "asks", "name", "names", "on", "id", "ttl"]
ALMOST = st.builds(
    lambda tag, fields: {"t": tag, **fields},
    st.sampled_from(TAGS),
    st.dictionaries(st.sampled_from(FIELDS), JSON),
)


@given(
    frames=st.lists(
        st.binary()
        | st.text()
        | JSON.map(json.dumps)
        | ALMOST.map(json.dumps)
        | ALMOST.map(lambda found: json.dumps({**found, "n": 1, "within": 1})),
        max_size=5,
    ),
    greeted=st.booleans(),
)
@in_loop
async def test_no_frame_raises_and_no_malformed_one_reaches_the_engine(
    frames: list[bytes | str],
    greeted: bool,  # noqa: FBT001  # hypothesis gives it
) -> None:
    held = Held()
    replica = Replica(held.made, Aio())
    peer = Peer(replica)
    if greeted:
        peer.greet()
    for frame in frames:
        peer.connection.feed(frame)
    await settle(3)
    assert {verb for verb, _ in held.calls} <= {"inspect"}
    peer.all()
    await replica.close()


@on_a_replica
async def test_ids_of_another_client_are_refused(replica: Replica, held: Held) -> None:
    peer, other = Peer(replica), Peer(replica)
    peer.greet()
    asks = [peer.new("a"), other.new("b")]
    peer.send(Claim(1, 1.0, asks))
    peer.send(Renew(2, 1.0, asks))
    peer.send(Resign(3, 1.0, asks))
    await settle()
    for n in (1, 2, 3):
        reply = peer.read()
        assert isinstance(reply, Failed)
        assert (reply.n, reply.fault.kind) == (n, "refused")
    assert held.calls == []
    assert not peer.connection.ended


@on_a_replica
async def test_a_break_removes_another_clients_claim_for_good(replica: Replica, held: Held) -> None:
    peer, other = Peer(replica), Peer(replica)
    peer.greet()
    other.greet()
    lost = other.new("a")
    await other.claim(lost)
    lost.not_after = held.memory.clock() - 5.0
    peer.send(Break(1, 1.0, [lost]))
    assert await peer.next() == Gone(1, [True])
    assert held.of("bury") == [[lost.id]]
    ask = held.asks[-1]
    assert ask.fixed is not None
    assert abs(ask.fixed - held.memory.clock() - 10.0) < 1  # not what `lost` says
    assert abs(ask.not_after - held.memory.clock() - 10.0) < 1
    assert ask.epoch == 1
    lost.not_after = held.memory.clock() + 10.0
    assert (await other.claim(lost)).results == [None]


@on_a_replica
async def test_reading_stops_while_many_requests_are_unanswered(
    replica: Replica, held: Held
) -> None:
    held.holding = {"inspect"}
    peer = Peer(replica)
    peer.greet()
    for n in range(UNANSWERED):
        assert not peer.connection.full
        peer.send(Inspect(n, "a", exact=True))
    assert peer.connection.full
    held.let_go()
    await peer.next()
    assert not peer.connection.full


@on_a_replica
async def test_an_ended_connection_is_not_full(replica: Replica, held: Held) -> None:
    held.holding = {"inspect"}
    peer = Peer(replica)
    peer.greet()
    for n in range(UNANSWERED):
        peer.send(Inspect(n, "a", exact=True))
    peer.connection.end()
    assert not peer.connection.full  # its reader must find that it has ended


@in_front_of_memory
async def test_reading_stops_while_many_bytes_wait_to_be_read(replica: Replica) -> None:
    peer = Peer(replica)
    peer.greet()
    for each in range(16):
        await peer.claim(peer.new(f"x{each}", payload=b"x" * 2**16))
    peer.send(Inspect(1, "x"))
    await settle()
    assert peer.connection.full
    peer.read()
    assert not peer.connection.full


@in_front_of_memory
async def test_a_client_that_does_not_read_its_wakes_is_disconnected(replica: Replica) -> None:
    slow, other = Peer(replica), Peer(replica)
    slow.greet(hear=True)
    other.greet(hear=True)
    slow.all()
    for _ in range(WAKES):
        replica.hearing.route([Wake(slow.client + "0" * 10, granted=True)])
        other.all()
    assert not slow.connection.ended
    replica.hearing.route([Wake(slow.client + "0" * 10, granted=True)])
    assert slow.connection.ended
    assert slow.connection.outbox.ended is not None
    assert slow.connection.outbox.size == 0
    assert not other.connection.ended


@in_front_of_memory
async def test_wakes_that_were_read_do_not_count(replica: Replica) -> None:
    peer = Peer(replica)
    peer.greet(hear=True)
    for _ in range(WAKES * 2):
        replica.hearing.route([Wake(peer.client + "0" * 10, granted=True)])
        peer.all()
    assert not peer.connection.ended
    assert peer.connection.outbox.size == 0


@in_front_of_memory
async def test_a_client_that_does_not_read_large_replies_is_disconnected(replica: Replica) -> None:
    peer = Peer(replica)
    peer.greet()
    peer.connection.outbox.add(b"x" * (messages.LARGEST_REPLY + 1))
    peer.send(Inspect(1, "a"))
    await settle()
    assert peer.connection.ended
    assert peer.connection.outbox.size == 0


@on_a_replica
async def test_wakes_stop_when_the_client_says_so(replica: Replica, held: Held) -> None:
    peer = Peer(replica)
    peer.greet(hear=True)
    assert peer.client in held.memory.listeners
    peer.send(Hear(on=False))
    assert peer.client not in held.memory.listeners
    peer.send(Hear(on=True))
    assert peer.client in held.memory.listeners
    peer.connection.end()
    assert peer.client not in held.memory.listeners


@in_front_of_memory
async def test_a_waiter_is_woken_when_the_holder_releases(replica: Replica) -> None:
    holder, waiter = Peer(replica), Peer(replica)
    holder.greet()
    waiter.greet(hear=True)
    first, second = holder.new("a"), waiter.new("a")
    await holder.claim(first)
    await asyncio.sleep(0.01)
    waiter.all()
    said = await waiter.claim(second)
    assert said.results[0] is not None
    assert not said.results[0].granted
    holder.send(Resign(9, 1.0, [first]))
    woken = await waiter.next()
    assert isinstance(woken, Woken)
    assert (woken.id, woken.granted) == (second.id, True)


@on_a_replica
async def test_an_ended_connection_takes_and_sends_nothing(replica: Replica, held: Held) -> None:
    held.holding = {"claim"}
    peer = Peer(replica)
    peer.greet()
    peer.send(Claim(1, 1.0, [peer.new("a")]))
    await settle()
    peer.connection.end()
    peer.connection.feed(encode(Resign(2, 1.0, [peer.new("b")])))
    held.let_go()
    await settle()
    assert held.of("claim") == [["a"]]
    assert held.of("resign") == []
    assert peer.all() == []


@in_front_of_memory
async def test_goaway_is_sent_to_all(replica: Replica) -> None:
    peers = [Peer(replica) for _ in range(3)]
    for peer in peers:
        peer.greet()
    replica.goaway()
    assert replica.draining
    assert [len(peer.all()) for peer in peers] == [1, 1, 1]
    assert not await replica.ready()


@on_a_replica
async def test_the_time_is_told_in_the_reply_to_a_renewal(replica: Replica, held: Held) -> None:
    peer = Peer(replica)
    peer.greet()
    ask = peer.new("a")
    await peer.claim(ask)
    peer.send(Renew(2, 1.0, [ask], urgent=True))
    said = await peer.next()
    assert isinstance(said, Said)
    assert said.now is not None
    assert abs(said.now - held.memory.clock()) < 1


@in_front_of_memory
async def test_a_client_that_does_not_greet_is_not_waited_for(replica: Replica) -> None:
    silent, polite = Peer(replica), Peer(replica)
    polite.greet()
    for peer in (silent, polite):
        peer.connection.expect_greeting()
    assert "greeting" in refusal(silent.read())
    assert (silent.connection.ended, polite.connection.ended) == (True, False)
