"""Other formats on MariaDB: refused, and left as they are. Installations beside clients."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

import lockfast
from lockfast import EngineRefused
from lockfast.core.record import FORMAT
from lockfast.engines.mysql import install
from lockfast.port import SHARED, Ask, Kind, Shape
from lockfast.testing import Stage
from lockfast.testing.harness.stage import Actor
from tests.contract.benches import MysqlBench
from tests.servers import MariaDB, ServerClock

# A holder and a waiter, as the procedures of that format leave them. They live for a minute.
STORE = """
INSERT INTO lockfast.lockfast_claim
  (b, id, name, ticket, waits, kind, capacity, weight, ttl, wait_ttl, expires, place, claims,
   waiting, held, payload, owner)
SELECT CRC32('x') %% 1024, UNHEX(LPAD(i, 32, '0')), 'x', i, i = 2, %s, 1, 1, 60000000, 60000000,
  TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + 60000000, i, i, i - 1, 1, '', 'root'
FROM (SELECT 1 i UNION SELECT 2) two
"""
STORED = "SELECT * FROM lockfast.lockfast_claim WHERE name = 'x' ORDER BY ticket"
KINDS = {0: 0, 2: 201}
"""Formats, and a kind that their rows have."""


@pytest.fixture(scope="module")
def bench() -> Iterator[MysqlBench]:
    clock = ServerClock()
    with MariaDB(env=clock.env, config={"innodb-flush-log-at-trx-commit": "0"}) as server:
        install(server.url)
        yield MysqlBench(server, clock=clock)


def stored(bench: MysqlBench) -> list[tuple[Any, ...]]:
    return bench.server.command(STORED)


def names_both(error: object, other: int) -> bool:
    return isinstance(error, EngineRefused) and all(
        f"format {number}" in str(error) for number in (other, FORMAT)
    )


def stranger(actor: Actor, number: int) -> Ask:
    """Give a claim with the id of one that is stored."""
    return Ask(f"{number:032}", Shape("x", 5.0), queue=True, not_after=actor.deadline, payload=b"")


@pytest.mark.parametrize("other", KINDS)
def test_what_is_stored_in_another_format_is_refused_and_stays(
    bench: MysqlBench, stage: Stage, other: int
) -> None:
    async def play() -> None:
        actor = stage.actor()
        await actor.claim(actor.ask("xy", ttl=30))
        bench.server.command(STORE, KINDS[other])
        before = stored(bench)
        for kind in Kind:
            size = SHARED if kind is Kind.READ_WRITE else 1
            for queued in (True, False):
                with pytest.raises(EngineRefused) as caught:
                    await actor.claim(actor.ask(kind=kind, capacity=size, queue=queued))
                assert names_both(caught.value, other)
        free, taken = actor.ask("free", queue=False), actor.ask(queue=False)
        found = await actor.engine.claim_all([free, taken], actor.deadline)
        assert getattr(found[0], "granted", False)
        assert names_both(found[1], other)
        for number in (1, 2):
            (renewed,) = await actor.renew(stranger(actor, number))
            assert names_both(renewed, other)
            for doubt in (False, True):
                assert await actor.resign(stranger(actor, number), doubt=doubt) == [False]
        with pytest.raises(EngineRefused) as caught:
            await actor.entries("x")
        assert names_both(caught.value, other)
        assert [entry.name for entry in await actor.every("x")] == ["xy"]
        assert stored(bench) == before

    stage.mode.run(play())


@pytest.mark.parametrize("other", KINDS)
def test_a_name_is_free_once_the_claims_of_another_format_have_expired(
    bench: MysqlBench, stage: Stage, other: int
) -> None:
    async def play() -> None:
        actor = stage.actor()
        bench.server.command(STORE, KINDS[other])
        with pytest.raises(EngineRefused):
            await actor.claim(actor.ask())
        assert (await actor.engine.inspect("", None, exact=False)).others == {other}
        await stage.advance(61)
        assert (await actor.claim(actor.ask())).granted
        assert len(stored(bench)) == 1

    stage.mode.run(play())


def test_clients_at_work_do_not_notice_an_installation(bench: MysqlBench) -> None:
    url, done, failed, pairs = bench.server.url, threading.Event(), [], []

    def work(number: int) -> None:
        try:
            with lockfast.connect(url) as client:
                while not done.is_set():
                    with client.lock(f"job {number % 2}", ttl=30, timeout=30) as lease:
                        pairs.append((number % 2, lease.token))
        except Exception as error:  # noqa: BLE001  # reported below
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    with lockfast.connect(url) as client, client.lock("kept", ttl=30, timeout=30) as kept:
        for thread in threads:
            thread.start()
        counts = [len(pairs)]
        for _ in range(3):
            install(url)
            counts.append(len(pairs))
        done.set()
        for thread in threads:
            thread.join(60)
        kept.ensure_held()
    assert failed == []
    assert len(set(pairs)) == len(pairs)
    assert counts[0] < counts[-1]
