"""Which connection gets which wakes."""

from __future__ import annotations

import asyncio

from lockfast.engines.remote.messages import Hear, Woken
from lockfast.port import EVERYONE, Wake, everyone_of
from lockfast.service.replica import Replica
from tests.service.peers import Held, Peer, in_front_of_memory, on_a_replica


def woken(peer: Peer) -> list[str]:
    return [reply.id for reply in peer.all() if isinstance(reply, Woken)]


async def hearing(replica: Replica, secret: str = "", epoch: int = 1) -> Peer:
    peer = Peer(replica, secret, epoch)
    peer.greet(hear=True)
    await asyncio.sleep(0.01)
    return peer


@in_front_of_memory
async def test_a_new_connection_asks_for_every_waiter(replica: Replica) -> None:
    peer = await hearing(replica)
    assert peer.client in woken(peer)
    again = await hearing(replica, peer.secret, epoch=2)
    assert woken(again) == [peer.client]


@in_front_of_memory
async def test_a_wake_goes_to_the_connection_of_its_client(replica: Replica) -> None:
    peers = [await hearing(replica) for _ in range(2)]
    deaf = Peer(replica)
    deaf.greet()
    for peer in peers:
        peer.all()
    id_ = peers[0].client + "0123456789"
    strange = "f" * 32
    replica.hearing.route([Wake(id_, granted=True, floor=7), Wake(strange, granted=True)])
    assert peers[0].all() == [Woken(id_, granted=True, floor=7)]
    replica.hearing.route([everyone_of(peers[1].client), everyone_of(deaf.client)])
    assert [woken(peer) for peer in (*peers, deaf)] == [[], [peers[1].client], []]


@in_front_of_memory
async def test_a_wake_for_everyone_goes_to_all_that_hear(replica: Replica) -> None:
    peers = [await hearing(replica) for _ in range(2)]
    deaf = Peer(replica)
    deaf.greet()
    for peer in peers:
        peer.all()
    replica.hearing.route([EVERYONE])
    assert [woken(peer) for peer in (*peers, deaf)] == [[""], [""], []]
    part = peers[0].client[:21]
    replica.hearing.route([everyone_of(part)])
    assert [woken(peer) for peer in (*peers, deaf)] == [[part], [], []]


@on_a_replica
async def test_the_newest_connection_gets_the_wakes(replica: Replica, held: Held) -> None:
    old = await hearing(replica, epoch=1)
    new = await hearing(replica, old.secret, epoch=3)
    middle = await hearing(replica, old.secret, epoch=2)  # its hello came late
    for peer in (old, new, middle):
        peer.all()
    id_ = old.client + "0" * 10
    replica.hearing.route([Wake(id_, granted=True)])
    assert [woken(peer) for peer in (old, middle, new)] == [[], [], [id_]]
    new.connection.end()
    replica.hearing.route([Wake(id_, granted=True)])
    assert [woken(peer) for peer in (old, middle, new)] == [[], [id_], []]
    middle.connection.end()
    assert old.client in held.memory.listeners
    old.connection.end()
    assert old.client not in held.memory.listeners


@on_a_replica
async def test_to_hear_twice_is_to_hear_once(replica: Replica, held: Held) -> None:
    peer = await hearing(replica)
    peer.send(Hear(on=True))
    peer.send(Hear(on=False))
    assert peer.client not in held.memory.listeners


@on_a_replica
async def test_an_old_connection_that_ends_late_does_not_stop_the_new_one(
    replica: Replica, held: Held
) -> None:
    old = await hearing(replica, epoch=1)
    new = await hearing(replica, old.secret, epoch=2)
    new.all()
    old.connection.end()
    old.connection.end()
    assert old.client in held.memory.listeners
    id_ = old.client + "0" * 10
    replica.hearing.route([Wake(id_, granted=True)])
    assert woken(new) == [id_]
