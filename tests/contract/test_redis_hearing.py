"""One Redis engine that hears many clients, as a replica of the service does."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

from lockfast.engines.redis import refusals
from lockfast.engines.redis.subscriptions import TOGETHER
from lockfast.port import CLIENT, EVERYONE, Wake, everyone_of
from lockfast.testing import MODES, Actor, Stage
from tests.contract.benches import RedisBench
from tests.servers import Cluster, Redis
from tests.servers.node import rows

MANY = 2 * TOGETHER + 100
SECRET = "s3cret"  # noqa: S105  # of a server that lives for a minute


@pytest.fixture(scope="module")
def server() -> Iterator[Redis]:
    with Redis() as server:
        yield server


@pytest.fixture
def bench(server: Redis) -> RedisBench:
    server.command("CONFIG", "RESETSTAT")
    return RedisBench(server.url, server)


def _client(first: str = "") -> str:
    return first + secrets.token_hex(CLIENT // 2)[len(first) :]


def _channels(server: Redis) -> set[str]:
    found = rows(server.command("PUBSUB", "CHANNELS", "lockfast:*"))
    return {each.decode() for each in found if isinstance(each, bytes)}


def _calls(server: Redis, command: str) -> int:
    stats = server.info("commandstats").get(f"cmdstat_{command}", "calls=0")
    return int(dict(pair.split("=") for pair in stats.split(","))["calls"])


async def _told(actor: Actor, stage: Stage, wanted: Wake) -> list[Wake]:
    """Listen until a wake comes, for ten seconds. Return it and those before it."""
    found: list[Wake] = []
    end = stage.bench.now() + 10.0
    while wanted not in found:
        assert stage.bench.now() < end, f"no {wanted}, but {found[:5]}"
        found += await actor.engine.listen(stage.bench.now() + 0.2)
    return found


def test_nothing_is_subscribed_before_a_client_is_heard(server: Redis, stage: Stage) -> None:
    async def play() -> None:
        actor = stage.actor()
        ask = actor.ask()
        await actor.claim(ask)
        await actor.renew(ask)
        assert await actor.engine.listen(stage.bench.now() + 0.2) == []
        assert (_channels(server), _calls(server, "subscribe")) == (set(), 0)
        await actor.resign(ask)

    stage.mode.run(play())


def test_many_clients_are_subscribed_in_few_commands_also_after_a_reconnect(
    server: Redis, stage: Stage
) -> None:
    async def play() -> None:
        actor = stage.actor()
        clients = [_client() for _ in range(MANY)]
        for client in clients:
            actor.engine.hear(client, on=True)
        assert await _told(actor, stage, EVERYONE) == [EVERYONE]
        assert _channels(server) == {f"lockfast:{client}" for client in clients}
        assert _calls(server, "subscribe") == 3
        for client in clients[::2]:
            actor.engine.hear(client, on=False)
        await actor.engine.listen(stage.bench.now() + 0.2)
        await actor.engine.listen(stage.bench.now() + 0.2)
        left = {f"lockfast:{client}" for client in clients[1::2]}
        assert _channels(server) == left
        assert _calls(server, "unsubscribe") == 2
        server.command("CLIENT", "KILL", "TYPE", "pubsub")
        assert await _told(actor, stage, EVERYONE) == [EVERYONE]
        assert _channels(server) == left
        assert _calls(server, "subscribe") == 5

    stage.mode.run(play())


def test_a_client_that_comes_later_is_told_alone(server: Redis, stage: Stage) -> None:
    async def play() -> None:
        replica, other = stage.actor(), stage.actor()
        await replica.attend()
        late = Actor(replica.engine, stage.bench)
        replica.engine.hear(late.client, on=True)
        assert await _told(replica, stage, everyone_of(late.client)) == [everyone_of(late.client)]
        holder, waiter = other.ask(), late.ask()
        await other.claim(holder)
        await late.claim(waiter)
        replica.engine.hear(late.client, on=False)
        # Whoever still publishes on the channel is not heard, though UNSUBSCRIBE is under way.
        server.command("PUBLISH", f"lockfast:{late.client}", f"{waiter.id} 7")
        await other.resign(holder)
        assert await replica.wakes(0) == []
        replica.engine.hear(late.client, on=True)
        await _told(replica, stage, everyone_of(late.client))
        assert (await late.renew_one(waiter)).granted
        await late.resign(waiter)

    stage.mode.run(play())


def test_wakes_arrive_while_clients_come_without_a_pause(server: Redis, stage: Stage) -> None:
    async def play() -> None:
        actor = stage.actor()
        await actor.attend()
        waiter = actor.ask()
        server.command("PUBLISH", f"lockfast:{actor.client}", f"{waiter.id} 7")
        found: list[str] = []
        for _ in range(50):  # each `listen` has one more client to subscribe to
            actor.engine.hear(_client(), on=True)
            found += [wake.id for wake in await actor.engine.listen(stage.bench.now() + 0.1)]
        assert waiter.id in found

    stage.mode.run(play())


@pytest.mark.parametrize("mode", sorted(MODES))
def test_a_channel_that_is_not_allowed_does_not_silence_the_others(
    mode: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(refusals, "AGAIN", 1.0)
    with Redis() as server:
        rules = ("resetchannels", "~lockfast:*", "&lockfast:a*", "+@all")
        server.command("ACL", "SETUSER", "app", "on", f">{SECRET}", *rules)
        bench = RedisBench(f"redis://app:{SECRET}@{server.address}", server)
        stage = Stage(bench, MODES[mode]())

        async def play() -> None:
            actor = stage.actor()
            allowed, refused = [_client("a") for _ in range(3)], _client("b")
            for client in (*allowed[:2], refused):
                actor.engine.hear(client, on=True)
            assert await _told(actor, stage, EVERYONE) == [EVERYONE]
            actor.engine.hear(allowed[2], on=True)
            await _told(actor, stage, everyone_of(allowed[2]))
            assert _channels(server) == {f"lockfast:{client}" for client in allowed}
            server.command("ACL", "SETUSER", "app", "&lockfast:*")
            await _told(actor, stage, everyone_of(refused))
            assert f"lockfast:{refused}" in _channels(server)
            ask = actor.ask()
            assert (await actor.claim(ask)).granted
            assert await actor.resign(ask) == [True]

        stage.mode.run(play())
        stage.mode.run(stage.clear())
        stage.mode.close()
    assert len([each for each in caplog.messages if "rejects the subscription" in each]) == 1


@pytest.mark.parametrize("mode", sorted(MODES))
def test_a_login_that_is_refused_is_not_tried_again_without_a_pause(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The heart lost its connection, and the password was changed meanwhile."""
    monkeypatch.setattr(refusals, "AGAIN", 1.0)
    with Redis() as server:
        rules = ("~lockfast:*", "&lockfast:*", "+@all")
        server.command("ACL", "SETUSER", "app", "on", f">{SECRET}", *rules)
        bench = RedisBench(f"redis://app:{SECRET}@{server.address}", server)
        stage = Stage(bench, MODES[mode]())

        async def play() -> None:
            actor = stage.actor()
            actor.engine.hear(actor.client, on=True)
            await actor.claim(actor.ask())
            await actor.engine.listen(stage.bench.now() + 0.1)
            server.command("ACL", "SETUSER", "app", "resetpass", ">another")
            server.command("CLIENT", "KILL", "TYPE", "pubsub")
            server.command("CLIENT", "KILL", "TYPE", "normal")
            server.command("CONFIG", "RESETSTAT")
            end = stage.bench.now() + 0.8
            while stage.bench.now() < end:
                await actor.engine.listen(end)
            assert _calls(server, "hello") <= 3
            server.command("ACL", "SETUSER", "app", "resetpass", f">{SECRET}")
            assert EVERYONE in await _told(actor, stage, EVERYONE)

        stage.mode.run(play())
        stage.mode.run(stage.clear())
        stage.mode.close()


@pytest.mark.parametrize("mode", sorted(MODES))
def test_without_the_right_to_unsubscribe_everything_else_works(mode: str) -> None:
    with Redis() as server:
        rules = ("~lockfast:*", "&lockfast:*", "+@all", "-unsubscribe")
        server.command("ACL", "SETUSER", "app", "on", f">{SECRET}", *rules)
        bench = RedisBench(f"redis://app:{SECRET}@{server.address}", server)
        stage = Stage(bench, MODES[mode]())

        async def play() -> None:
            actor = stage.actor()
            gone = _client()
            actor.engine.hear(gone, on=True)
            await _told(actor, stage, EVERYONE)
            actor.engine.hear(gone, on=False)
            await actor.attend()
            server.command("PUBLISH", f"lockfast:{gone}", f"{gone}{7:010x} 7")
            assert await actor.wakes(0) == []

        stage.mode.run(play())
        stage.mode.run(stage.clear())
        stage.mode.close()


@pytest.mark.parametrize("mode", sorted(MODES))
def test_one_node_of_a_cluster_is_the_ear_and_another_takes_over_with_all_clients(
    mode: str,
) -> None:
    with Cluster() as servers:
        stage = Stage(RedisBench(servers.url, *servers.nodes), MODES[mode]())

        async def play() -> None:
            actor = stage.actor()
            clients = [_client() for _ in range(MANY)]
            for client in clients:
                actor.engine.hear(client, on=True)
            await _told(actor, stage, EVERYONE)
            wanted = {f"lockfast:{client}" for client in clients}
            (ear,) = [node for node in servers.nodes if _channels(node)]
            assert _channels(ear) == wanted
            ear.kill()
            await _told(actor, stage, EVERYONE)
            (other,) = [node for node in servers.nodes if node is not ear and _channels(node)]
            assert _channels(other) == wanted
            other.command("PUBLISH", f"lockfast:{clients[7]}", f"{clients[7]}{7:010x} 7")
            assert [wake.id for wake in await actor.wakes(1)] == [f"{clients[7]}{7:010x}"]

        stage.mode.run(play())
        stage.mode.run(stage.clear())
        stage.mode.close()
