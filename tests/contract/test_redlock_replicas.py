"""Several Redlock engines that are asked about one claim, and one that hears many clients."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import partial

import pytest

from lockfast.engines.redis.subscriptions import TOGETHER
from lockfast.engines.redlock import messages
from lockfast.engines.redlock.engine import RedlockEngine
from lockfast.engines.redlock.requests import load
from lockfast.errors import EngineError, EngineRefused
from lockfast.port import CLIENT, EVERYONE, Ask, Standing
from lockfast.testing import MODES, Actor, Stage
from lockfast.testing.harness.roaming import again
from tests.contract.benches import RedlockBench
from tests.servers import Redis, RedlockSet

MINORITY = {0, 1}


@pytest.fixture(scope="module")
def servers() -> Iterator[RedlockSet]:
    with RedlockSet() as nodes:
        yield nodes


@pytest.fixture(params=sorted(MODES))
def stage(request: pytest.FixtureRequest, servers: RedlockSet) -> Iterator[Stage]:
    mode = MODES[request.param]()
    stage = Stage(RedlockBench(servers), mode)
    yield stage
    mode.run(stage.clear())
    mode.close()


def inside(actor: Actor) -> RedlockEngine:
    assert isinstance(actor.engine, RedlockEngine)
    return actor.engine


def left_of(node: Redis, key: str) -> int:
    reply = node.command("PTTL", key)
    assert isinstance(reply, int)
    return reply


async def propose(actor: Actor, ask: Ask, nodes: set[int]) -> int:
    """Let an engine propose a claim to some nodes and then stop, as if its machine had paused."""
    engine = inside(actor)
    await load(engine._transport, actor.deadline)
    trial = engine._trials.of(ask)
    engine._number(trial)
    requests = [trial.packet(ask) if node in nodes else None for node in range(5)]
    left = set(nodes)

    def hear(node: int, answer: object) -> float:
        assert answer == [1]
        left.discard(node)
        return float(bool(left))

    await engine._transport.scatter(requests, 1, actor.deadline, hear)
    assert not left
    return trial.token


async def withdraw(actor: Actor, ask: Ask) -> None:
    engine = inside(actor)
    trial = engine._trials.of(ask)
    await engine._free(ask, trial, set(range(5)), withdrawn=True)
    await actor.entries("x")  # it follows on the same connections


def test_what_one_engine_has_adopted_the_other_cannot_withdraw(stage: Stage) -> None:
    """It may have read too late that it won, when the client holds by another engine's answer."""

    async def play() -> None:
        old, new = stage.actor(), stage.actor()
        ask = old.ask()
        token = await propose(old, ask, {0, 1, 2, 3, 4})
        first = await new.claim(again(ask, None, 2))
        assert (first.ticket, first.granted) == (token, True)
        await withdraw(old, ask)
        assert (await new.renew_one(again(ask, first, 2))).ticket == token
        assert not (await new.claim(new.ask(queue=False))).granted

    stage.mode.run(play())


def test_it_cannot_withdraw_that_when_others_wait_either(stage: Stage) -> None:
    """A waiter marks the lock too, and must leave the mark of the adoption there."""

    async def play() -> None:
        old, new, other = stage.actor(), stage.actor(), stage.actor()
        ask = old.ask()
        token = await propose(old, ask, {0, 1, 2, 3, 4})
        first = await new.claim(again(ask, None, 2))
        assert not (await other.claim(other.ask())).granted
        await withdraw(old, ask)
        assert (await new.renew_one(again(ask, first, 2))).ticket == token

    stage.mode.run(play())


def test_a_proposal_that_comes_after_the_tombstone_is_refused_by_its_number(
    servers: RedlockSet, stage: Stage
) -> None:
    """The engine that resigns the claim finds out which number another engine has proposed."""

    async def play() -> None:
        old, new = stage.actor(), stage.actor()
        ask = old.ask()
        await propose(old, ask, MINORITY)
        assert await new.resign(again(ask, None, 2), doubt=True) == [False]
        tomb = messages.mark_key(messages.keys("x").bucket) + "~" + ask.id
        for node in servers.nodes:
            assert node.command("DEL", tomb) == 1
        packet = inside(old)._trials.of(ask).packet(ask)
        answers: list[object] = []

        def hear(_: int, answer: object) -> float:
            answers.append(answer)
            return float(len(answers) < 5)

        await inside(old)._transport.scatter([packet] * 5, 1, old.deadline, hear)
        assert [answer[0][0] for answer in answers] == [b"mark"] * 5  # type: ignore[index]
        assert await old.entries("x") == []

    stage.mode.run(play())


def test_what_no_other_engine_has_adopted_can_be_withdrawn(stage: Stage) -> None:
    async def play() -> None:
        old, new = stage.actor(), stage.actor()
        ask = old.ask()
        await propose(old, ask, {0, 1, 2, 3, 4})
        await withdraw(old, ask)
        assert (await new.claim(new.ask(queue=False))).granted

    stage.mode.run(play())


def test_a_number_of_another_engine_is_not_replaced(stage: Stage) -> None:
    async def play() -> None:
        old, new = stage.actor(), stage.actor()
        ask = old.ask()
        token = await propose(old, ask, MINORITY)
        moved = again(ask, None, 2)
        first = await new.claim(moved)
        assert first.granted
        assert first.ticket > token
        moved = again(ask, first, 2)
        late = await old.claim(ask)  # it learns the number that a majority has
        assert (late.ticket, late.granted) == (first.ticket, True)
        assert (await new.renew_one(moved)).ticket == first.ticket
        await withdraw(old, ask)
        assert (await new.renew_one(moved)).ticket == first.ticket
        assert await new.resign(moved, doubt=True) == [True]
        assert await old.is_dead(ask)
        assert await old.entries("x") == []

    stage.mode.run(play())


def test_an_engine_replaces_its_own_number_where_its_withdrawal_got_lost(stage: Stage) -> None:
    async def play() -> None:
        actor = stage.actor()
        ask = actor.ask()
        token = await propose(actor, ask, {0, 1, 2, 3, 4})
        trial = inside(actor)._trials.of(ask)
        trial.open = False  # it has given the number up
        first = await actor.claim(ask)
        assert first.granted
        assert first.ticket > token
        assert (await actor.renew_one(again(ask, first, 0))).ticket == first.ticket

    stage.mode.run(play())


def test_an_engine_does_not_replace_its_own_number_that_another_one_has_adopted(
    stage: Stage,
) -> None:
    """It has read too late that it won, and goes on to another number. The client holds by the
    first one, and would lose its lease.
    """

    async def play() -> None:
        old, new = stage.actor(), stage.actor()
        ask = old.ask()
        token = await propose(old, ask, {0, 1, 2, 3, 4})
        first = await new.claim(again(ask, None, 2))
        assert (first.ticket, first.granted) == (token, True)
        inside(old)._trials.of(ask).open = False  # it has given the number up
        assert not (await old.claim(ask)).granted
        assert (await new.renew_one(again(ask, first, 2))).ticket == token

    stage.mode.run(play())


def test_an_engine_withdraws_again_what_a_node_still_has(stage: Stage) -> None:
    async def play() -> None:
        actor = stage.actor()
        ask = actor.ask()
        await propose(actor, ask, {0, 1, 2, 3, 4})
        trial = inside(actor)._trials.of(ask)
        for _ in range(2):  # an earlier number than the one that it may replace
            trial.open = False
            inside(actor)._number(trial)
        trial.open = False
        first = await actor.claim(ask)
        for _ in range(5):
            if first.granted:
                break
            first = await actor.claim(ask)
        assert first.granted

    stage.mode.run(play())


def test_a_resignation_by_an_engine_that_does_not_know_the_number_is_final(stage: Stage) -> None:
    """A copy may arrive at any engine, and each would choose a number that no mark refuses."""

    async def play() -> None:
        engines = [stage.actor() for _ in range(3)]
        ask = engines[0].ask()
        assert await engines[1].resign(again(ask, None, 2), doubt=True) == [False]
        for place, actor in enumerate(engines):
            assert await actor.is_dead(again(ask, None, place))
        assert (await engines[2].claim(engines[2].ask())).granted

    stage.mode.run(play())


def test_no_tombstone_is_shortened(servers: RedlockSet, stage: Stage) -> None:
    async def play() -> None:
        actor, other = stage.actor(), stage.actor()
        ask = actor.ask(ttl=10)
        await actor.resign(ask, doubt=True)
        brief = again(ask, None, 2)
        brief.not_after = stage.bench.now()
        await other.resign(brief, doubt=True)
        tomb = messages.mark_key(messages.keys("x").bucket) + "~" + ask.id
        for node in servers.nodes:
            assert left_of(node, tomb) > 5000

    stage.mode.run(play())


def test_a_resignation_that_fails_does_not_fail_the_others(
    servers: RedlockSet, stage: Stage
) -> None:
    async def play() -> None:
        actor = stage.actor()
        asks = [actor.ask(name) for name in ("bad", "good", "gone")]
        for ask in asks[:2]:
            await actor.claim(ask)
        lock = messages.mark_key(messages.keys("bad").bucket) + "=bad"
        for node in servers.nodes[:3]:
            node.command("DEL", lock)
            node.command("RPUSH", lock, "of another program")
        failed, *others = await actor.resign(*asks)
        assert isinstance(failed, EngineError)
        assert others == [True, False]
        for node in servers.nodes[:3]:
            node.command("DEL", lock)
        assert await actor.resign(asks[0]) == [False]  # a minority had it, and has removed it

    stage.mode.run(play())


# --- hear -------------------------------------------------------------------------------------


def channels(servers: RedlockSet) -> set[str]:
    """Return the clients whose channels somebody listens to, on any node."""
    found: set[str] = set()
    for node in servers.nodes:
        for each in listed(node):
            found.add(each.removeprefix(messages.PREFIX))
    return found


def listed(node: Redis) -> list[str]:
    reply = node.command("PUBSUB", "CHANNELS", f"{messages.PREFIX}*")
    assert isinstance(reply, list)
    return [each.decode() if isinstance(each, bytes) else str(each) for each in reply]


async def told(stage: Stage, actor: Actor, clients: set[str]) -> None:
    """Listen until the wakes concern all of some clients."""
    missing = set(clients)
    end = stage.bench.now() + 60.0
    while missing:
        assert stage.bench.now() < end, f"{len(missing)} of {len(clients)} were not told"
        for wake in await actor.engine.listen(stage.bench.now() + 2.0):
            missing = set() if wake == EVERYONE else missing - {wake.id}


def test_many_clients_are_heard_after_a_reconnect_and_those_that_left_are_not(
    servers: RedlockSet, stage: Stage
) -> None:
    async def play() -> None:
        replica = stage.actor()
        await replica.attend()
        assert channels(servers) == {replica.client}
        clients = {f"{number:0{CLIENT}x}" for number in range(2 * TOGETHER + 1)}
        for client in sorted(clients):
            replica.engine.hear(client, on=True)
        await told(stage, replica, clients)
        gone = set(sorted(clients)[::2])
        for client in gone:
            replica.engine.hear(client, on=False)
        stay = (clients - gone) | {replica.client}
        for _ in range(200):
            await replica.engine.listen(stage.bench.now() + 0.1)
            if channels(servers) == stay:
                break
        assert channels(servers) == stay
        for node in servers.nodes:
            node.command("CLIENT", "KILL", "TYPE", "pubsub")
        await told(stage, replica, stay)
        assert channels(servers) == stay
        for client in stay:
            replica.engine.hear(client, on=False)
        for _ in range(100):
            await replica.engine.listen(stage.bench.now() + 0.05)
            if not channels(servers):
                break
        assert channels(servers) == set()

    stage.mode.run(play())


def test_nothing_is_subscribed_before_a_client_is_heard(servers: RedlockSet, stage: Stage) -> None:
    async def play() -> None:
        actor = stage.actor()
        await actor.claim(actor.ask())
        assert await actor.engine.listen(stage.bench.now() + 0.1) == []
        assert channels(servers) == set()

    stage.mode.run(play())


def all_hold(servers: RedlockSet, name: str) -> bool:
    """Return whether a name is held on every node: none then accepts a waiter in its place."""
    lock = messages.mark_key(messages.keys(name).bucket) + "=" + name
    return all(node.command("EXISTS", lock) for node in servers.nodes)


def all_wait(servers: RedlockSet, names: list[str]) -> bool:
    """Return whether every node has a waiter on each name. The one that is heard sends the wake."""
    rooms = [messages.mark_key(messages.keys(name).bucket) + ">" + name for name in names]
    return all(node.command("ZCARD", room) for node in servers.nodes for room in rooms)


def test_wakes_of_the_clients_that_are_heard_arrive_and_no_others(
    servers: RedlockSet, stage: Stage
) -> None:
    async def play() -> None:
        replica, other = stage.actor(), stage.actor()
        clients = [Actor(replica.engine, stage.bench) for _ in range(6)]
        for client in clients:
            await client.attend()
        holders = [other.ask(f"name {number}") for number in range(len(clients))]
        waiters = []
        for client, holder in zip(clients, holders, strict=True):
            await other.claim(holder)
            name = holder.shape.name
            await stage.mode.until(partial(all_hold, servers, name), "it holds on all nodes")
            waiters.append(client.ask(name))
            await client.claim(waiters[-1])
        names = [holder.shape.name for holder in holders]
        await stage.mode.until(lambda: all_wait(servers, names), "each waits on all nodes")
        for client in clients[::2]:
            replica.engine.hear(client.client, on=False)
        await replica.wakes(0)
        await other.resign(*holders)
        wakes = await replica.wakes(3)
        assert {wake.id for wake in wakes} == {waiter.id for waiter in waiters[1::2]}

    stage.mode.run(play())


@pytest.mark.parametrize("verb", ["claim", "renew", "resign", "resign in doubt"])
def test_a_client_cannot_use_up_the_tokens_by_what_it_says(stage: Stage, verb: str) -> None:
    """A client of the service says which ticket its claim has. Nodes raise their marks to it."""

    async def play() -> None:
        liar, honest = stage.actor(), stage.actor()
        for granted in (False, True):
            ask = liar.ask()
            ask.ticket, ask.granted, ask.epoch = 2**53 - 1, granted, 1
            with suppress(EngineRefused):
                if verb == "claim":
                    await liar.claim(ask)
                elif verb == "renew":
                    await liar.engine.renew([ask], liar.deadline)
                else:
                    doubt = verb == "resign in doubt"
                    await liar.engine.resign([ask], liar.deadline, doubt=doubt)
        assert (await honest.claim(honest.ask())).ticket < 2**53 - 1

    stage.mode.run(play())


def test_a_claim_that_cannot_be_does_not_keep_others_from_an_answer(stage: Stage) -> None:
    async def play() -> None:
        actor = stage.actor()
        fine, wrong = actor.ask(), actor.ask("y")
        assert (await actor.claim(fine)).granted
        wrong.ticket, wrong.granted = 2**53 - 1, True
        refused, renewed = await actor.engine.renew([wrong, fine], actor.deadline)
        assert isinstance(refused, EngineRefused)
        assert isinstance(renewed, Standing)
        gone = await actor.engine.resign([wrong, fine], actor.deadline, doubt=True)
        assert isinstance(gone[0], EngineRefused)
        assert gone[1] is True

    stage.mode.run(play())
