"""What a replica does with claims that end with their connection, on a memory engine."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from lockfast.engines.memory import MemoryEngine
from lockfast.engines.remote.messages import Asked, Gone, Renew, Resign, Said, Woken
from lockfast.errors import EngineUnavailable
from lockfast.port import Ask
from lockfast.runtime.aio import Aio
from lockfast.service import disconnects
from lockfast.service.replica import Replica
from tests.service.peers import Held, Peer, in_loop

D = 0.2
SOON = 10.0


class Ending(Held):
    """An engine that can remove the claims of connections that have ended."""

    def _inner(self) -> MemoryEngine:
        assert isinstance(self._engine, MemoryEngine)
        return self._engine

    async def attach(self, asks: Sequence[Ask], deadline: float) -> list[bool | Exception]:
        await self._note("attach", asks, [ask.id for ask in asks], deadline)
        return await self._inner().attach(asks, deadline)

    async def depart(self, asks: Sequence[Ask], deadline: float) -> list[bool | Exception]:
        await self._note("depart", asks, [ask.id for ask in asks], deadline)
        return await self._inner().depart(asks, deadline)

    def verbs(self) -> list[str]:
        """Return the calls since the last time."""
        calls, self.calls = self.calls, []
        return [verb for verb, _ in calls if verb != "inspect"]


def on_a_replica(test: Callable[[Replica, Ending], Awaitable[None]]) -> Callable[[], None]:
    """Run a test with a replica in front of such an engine."""

    @in_loop
    async def run() -> None:
        engine = Ending()
        replica = Replica(engine.made, Aio(), window=0.0)
        try:
            await test(replica, engine)
        finally:
            engine.let_go()
            await replica.close()

    def test_() -> None:
        run()

    test_.__name__ = test.__name__
    return test_


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(SOON):
        while not condition():  # noqa: ASYNC110  # it is about the engine
            await asyncio.sleep(0.01)


def ids(engine: Ending) -> list[str]:
    return [entry.id for entry in engine.memory.queues.entries("x", engine.memory.clock())]


async def renewed(peer: Peer, asked: Asked, *, urgent: bool = False) -> Said:
    asked.granted = True
    peer.send(Renew(77, 2.0, [asked], urgent))
    said = await peer.next()
    assert isinstance(said, Said)
    return said


def greeted(replica: Replica, secret: str = "", epoch: int = 1) -> Peer:
    peer = Peer(replica, secret, epoch)
    assert peer.greet().on_disconnect
    return peer


@on_a_replica
async def test_the_engine_hears_of_the_connection_first_and_of_few_renewals(
    replica: Replica, engine: Ending
) -> None:
    peer = greeted(replica)
    asked = peer.new("x", on_disconnect=D)
    said = await peer.claim(asked)
    assert said.results[0] is not None
    assert said.results[0].left == D
    assert engine.verbs() == ["attach", "claim"]
    for _ in range(3):
        said = await renewed(peer, asked)
        assert said.results[0] is not None
        assert (said.results[0].granted, said.results[0].left) == (True, D)
    assert engine.verbs() == []
    await renewed(peer, asked, urgent=True)
    assert engine.verbs() == ["attach", "renew"]


@on_a_replica
async def test_a_waiter_is_renewed_in_the_engine(replica: Replica, engine: Ending) -> None:
    peer = greeted(replica)
    await peer.claim(peer.new("x"))
    asked = peer.new("x", on_disconnect=D)
    await peer.claim(asked)
    engine.verbs()
    peer.send(Renew(77, 2.0, [asked]))
    said = await peer.next()
    assert isinstance(said, Said)
    assert said.results[0] is not None
    assert (said.results[0].granted, said.results[0].left) == (False, D)
    assert engine.verbs() == ["attach", "renew"]


@on_a_replica
async def test_a_lease_that_is_old_is_renewed_while_its_client_has_its_answer(
    replica: Replica, engine: Ending
) -> None:
    peer = greeted(replica)
    asked = peer.new("x", ttl=2.0, on_disconnect=D)
    await peer.claim(asked)
    engine.verbs()
    await asyncio.sleep(0.8)
    engine.holding.add("renew")
    for _ in range(2):
        assert (await renewed(peer, asked)).results[0] is not None
    await until(lambda: engine.gates)
    assert engine.verbs() == ["attach", "renew"]
    engine.let_go()


@on_a_replica
async def test_a_client_is_woken_when_the_engine_says_otherwise(
    replica: Replica, engine: Ending
) -> None:
    peer = greeted(replica)
    asked = peer.new("x", ttl=2.0, on_disconnect=D)
    await peer.claim(asked)
    engine.memory.queues._queues.clear()  # somebody has broken it
    assert (await renewed(peer, asked)).results[0] is not None
    await asyncio.sleep(0.8)
    assert (await renewed(peer, asked)).results[0] is not None
    woken = await peer.next()
    assert isinstance(woken, Woken)
    assert (woken.id, woken.granted) == (asked.id, False)
    assert (await renewed(peer, asked, urgent=True)).results == [None]


@on_a_replica
async def test_a_claim_that_is_gone_is_not_remembered(replica: Replica, engine: Ending) -> None:
    peer = greeted(replica)
    asked = peer.new("x", on_disconnect=D)
    await peer.claim(asked)
    peer.send(Resign(5, 2.0, [asked]))
    assert isinstance(await peer.next(), Gone)
    said = await renewed(peer, asked)
    assert said.results == [None]
    peer.connection.end()
    await asyncio.sleep(2 * D)
    assert "depart" not in engine.verbs()


@on_a_replica
async def test_claims_end_with_their_connection_and_others_stay(
    replica: Replica, engine: Ending
) -> None:
    peer = greeted(replica)
    ending, staying = peer.new("x", on_disconnect=D), peer.new("y")
    short = peer.new("z", ttl=D, on_disconnect=D)
    await peer.claim(ending, staying, short)
    peer.connection.end()
    assert ids(engine) == [ending.id]
    await until(lambda: not ids(engine))
    assert [keys for verb, keys in engine.calls if verb == "depart"] == [[ending.id]]
    assert replica.figures.claims.counts["depart", "removed"] == 1
    assert replica.disconnects.room == disconnects.MOST


@on_a_replica
async def test_a_client_that_connects_again_keeps_its_claims(
    replica: Replica, engine: Ending
) -> None:
    peer = greeted(replica)
    asked = peer.new("x", on_disconnect=D)
    await peer.claim(asked)
    peer.connection.end()
    again = greeted(replica, peer.secret, 2)
    engine.verbs()
    await renewed(again, asked)  # although the replica knows the lease from the first connection
    assert engine.verbs() == ["attach", "renew"]
    await until(lambda: "depart" in engine.verbs())
    await asyncio.sleep(0.05)
    assert ids(engine) == [asked.id]


@on_a_replica
async def test_a_late_request_of_an_earlier_connection_gets_nothing(
    replica: Replica, engine: Ending
) -> None:
    late = greeted(replica)
    asked = late.new("x", on_disconnect=D)
    peer = greeted(replica, late.secret, 2)
    await peer.claim(asked)
    engine.verbs()
    said = await renewed(late, asked, urgent=True)
    assert [(each.kind, each.sent) for each in said.faults] == [("unavailable", False)]
    assert engine.verbs() == ["attach"]


@on_a_replica
async def test_a_claim_that_cannot_be_attached_is_not_made(
    replica: Replica, engine: Ending
) -> None:
    peer = greeted(replica)
    asked, other = peer.new("x", on_disconnect=D), peer.new("y")
    engine.failures.append(EngineUnavailable("down", sent=True))
    said = await peer.claim(asked, other)
    assert [(each.at, each.kind, each.sent) for each in said.faults] == [(0, "unavailable", False)]
    assert said.results[1] is not None
    assert ids(engine) == []


@on_a_replica
async def test_an_engine_that_is_unavailable_is_asked_again(
    replica: Replica, engine: Ending
) -> None:
    peer = greeted(replica)
    asked = peer.new("x", on_disconnect=D)
    await peer.claim(asked)
    engine.failures.append(EngineUnavailable("down", sent=True))
    peer.connection.end()
    await until(lambda: not ids(engine))
    assert engine.verbs().count("depart") == 2


@on_a_replica
async def test_a_replica_that_was_closed_asks_the_engine_no_more(
    replica: Replica, engine: Ending
) -> None:
    peer = greeted(replica)
    await peer.claim(peer.new("x", on_disconnect=D))
    engine.holding.add("depart")
    peer.connection.end()
    await until(lambda: engine.gates)
    engine.failures.append(EngineUnavailable("down", sent=True))
    closing = asyncio.ensure_future(replica.close())
    await asyncio.sleep(0)
    engine.let_go()
    await closing
    await asyncio.sleep(disconnects.PAUSE + 0.5)
    assert len(engine.of("depart")) == 1


@on_a_replica
async def test_a_claim_under_way_when_the_connection_ends_ends_too(
    replica: Replica, engine: Ending
) -> None:
    peer = greeted(replica)
    engine.holding.add("claim")
    asked = peer.new("x", on_disconnect=D)
    claiming = asyncio.ensure_future(peer.claim(asked))
    await until(lambda: engine.gates)
    peer.connection.end()
    await until(lambda: engine.of("depart"))
    engine.let_go()
    await asyncio.sleep(0.1)
    await until(lambda: not ids(engine))
    claiming.cancel()
