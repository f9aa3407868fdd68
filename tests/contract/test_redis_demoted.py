"""A primary that becomes a replica behind a DNS name, or a virtual address, that moves on."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from lockfast.errors import EngineUnavailable
from lockfast.testing import MODES, Stage
from lockfast.testing.harness.verbs import acquire, release
from tests.contract.benches import RedisBench
from tests.servers import Proxy, Redis, RedlockSet


class VirtualAddress(Proxy):
    """New connections go to the new server; those to the old one stay, as with a DNS name."""

    def lead_to(self, server: Redis) -> None:
        self._target = (server.host, server.port)


@pytest.fixture(params=sorted(MODES))
def mode(request: pytest.FixtureRequest) -> str:
    assert isinstance(request.param, str)
    return request.param


@pytest.fixture
def pair() -> Iterator[tuple[Redis, Redis]]:
    with Redis() as old, Redis(replica_of=old) as new:
        new.wait_linked()
        yield old, new


def test_a_client_of_a_demoted_primary_finds_the_new_one(
    pair: tuple[Redis, Redis], mode: str
) -> None:
    old, new = pair
    with VirtualAddress(old.host, old.port) as way:
        stage = Stage(RedisBench(f"redis://{way.address}", old), MODES[mode]())

        async def play() -> None:
            client = stage.client()
            held = await acquire(client.lock("held", ttl=2.0))
            await stage.mode.together(*[acquire(client.lock(f"{n}", ttl=30.0)) for n in range(4)])
            new.wait_in_step(old)
            new.command("REPLICAOF", "NO", "ONE")
            way.lead_to(new)
            old.command("REPLICAOF", new.host, str(new.port))
            fresh = await acquire(client.lock("fresh", ttl=5.0), 10)
            await release(fresh)
            # The heart's connection too: the lease outlives its ttl.
            began = time.monotonic()
            while time.monotonic() - began < 3.0:
                held.ensure_held()
                await stage.mode.sleep(0.05)
            await release(held)

        stage.mode.run(play())
        stage.mode.run(stage.clear())
        stage.mode.close()


def test_redlock_gives_up_connections_to_a_demoted_node(mode: str) -> None:
    with RedlockSet(1) as servers:
        (node,) = servers.nodes
        with VirtualAddress(node.host, node.port) as way:
            stage = Stage(RedisBench(f"redlock://{way.address}"), MODES[mode]())

            async def play() -> None:
                client = stage.client()
                held = await acquire(client.lock("x", ttl=30.0))
                before = way.connections
                node.command("REPLICAOF", "127.0.0.1", "1")  # nobody is there: it keeps its data
                with pytest.raises(EngineUnavailable):
                    await acquire(client.lock("y", ttl=30.0), 1.0)
                node.command("REPLICAOF", "NO", "ONE")
                assert way.connections > before
                del held

            stage.mode.run(play())
            stage.mode.run(stage.clear())
            stage.mode.close()
