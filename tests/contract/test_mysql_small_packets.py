"""A MariaDB whose packets have 16 KiB: batches are split so that requests and replies fit."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence

import pytest

from lockfast import EngineRefused
from lockfast.core.validity import State
from lockfast.engines import opener
from lockfast.engines.mysql import install, messages
from lockfast.engines.mysql.engine import MysqlEngine
from lockfast.engines.mysql.packing import CALL, LEAST, LINE, packed
from lockfast.port import Ask, Engine, Kind, Shape, Standing
from lockfast.runtime.base import now
from lockfast.runtime.drive import drive
from lockfast.runtime.threads import Threads
from lockfast.testing import Stage
from lockfast.testing.harness.verbs import acquire, release
from lockfast.url import parse
from tests.contract.benches import MysqlBench
from tests.servers import MariaDB

MANY = MysqlEngine.batch
DAY = 86_400.0
LIMIT = b"SET STATEMENT max_statement_time = 10.000 FOR "
LONG = "ä" * 253  # and a number: 512 bytes


@pytest.fixture(scope="module")
def server() -> Iterator[MariaDB]:
    config = {"innodb-flush-log-at-trx-commit": "0", "max-allowed-packet": f"{LEAST}"}
    with MariaDB(config=config) as server:
        install(server.url)
        yield server


@pytest.fixture
def bench(server: MariaDB) -> MysqlBench:
    return MysqlBench(server)


@pytest.fixture
def engine(server: MariaDB) -> Iterator[Engine]:
    engine = opener(parse(server.url), Threads())()
    yield engine
    drive(engine.close())


def ask(name: str, payload: bytes = b"", ttl: float = 60.0) -> Ask:
    return Ask(
        secrets.token_hex(16), Shape(name, ttl), queue=True, not_after=now() + 60, payload=payload
    )


def granted(standings: Sequence[object]) -> list[bool]:
    return [isinstance(each, Standing) and each.granted for each in standings]


@pytest.mark.parametrize("payload", [b"", b"p" * 3000])
def test_a_batch_of_long_names_and_payloads(engine: Engine, payload: bytes) -> None:
    asks = [ask(f"{LONG}{n:06}", payload) for n in range(MANY)]
    assert granted(drive(engine.claim_all(asks, now() + 60))) == [True] * MANY
    assert granted(drive(engine.renew(asks, now() + 60))) == [True] * MANY
    assert drive(engine.resign(asks, now() + 60, doubt=True)) == [True] * MANY
    assert drive(engine.resign(asks, now() + 60, doubt=False)) == [False] * MANY


def test_a_batch_of_waiters_is_told_who_is_ahead(engine: Engine) -> None:
    """The reply has as many payloads of holders as fit, and the longest numbers behind them."""
    holders = [ask(f"w{n}", b"p" * (LEAST // 4), DAY) for n in range(MANY)]
    waiters = [ask(f"w{n}", b"", DAY) for n in range(MANY)]
    assert granted(drive(engine.claim_all(holders, now() + 60))) == [True] * MANY
    for call in (engine.claim_all, engine.renew):
        standings = drive(call(waiters, now() + 60))
        assert granted(standings) == [False] * MANY
        for standing, holder in zip(standings, holders, strict=True):
            assert isinstance(standing, Standing)
            assert standing.blocker is not None
            assert standing.blocker.id == holder.id
    assert drive(engine.resign([*waiters, *holders], now() + 60, doubt=False)) == [True] * 2 * MANY


def test_a_claim_that_fits_into_no_packet_is_refused_and_the_others_are_not(engine: Engine) -> None:
    large, small = ask("large", b"p" * 9000), ask("small")
    with pytest.raises(EngineRefused, match="SET GLOBAL max_allowed_packet = 1048576"):
        drive(engine.claim(large, now() + 60))
    standing = drive(engine.claim(small, now() + 60))
    assert standing is not None
    assert standing.granted
    drive(engine.resign([small], now() + 60, doubt=False))


def test_leases_with_long_names_are_kept(stage: Stage) -> None:
    async def play() -> None:
        client = stage.client()
        locks = [client.lock(f"{LONG}{n:06}", ttl=4.0) for n in range(MANY)]
        # Each by a thread or task of its own: a claim names what its thread or task holds.
        leases = await stage.mode.together(*(acquire(lock, 30) for lock in locks))
        await stage.mode.sleep(8.0)
        assert {lease.state for lease in leases} == {State.HELD}
        for lease in leases:
            await release(lease)

    stage.mode.run(play())


def test_a_server_with_smaller_packets_than_the_one_before(engine: Engine) -> None:
    """As after a failover: a client learns it with the next connection."""
    asks = [ask(f"{LONG}{n:06}") for n in range(MANY)]
    drive(engine.claim_all(asks, now() + 60))
    assert isinstance(engine, MysqlEngine)
    assert engine._transport.packet == LEAST
    engine._transport.packet = 2**24
    for link in engine._transport._links():
        link.close()
    assert drive(engine.renew([asks[0]], now() + 60))
    assert granted(drive(engine.renew(asks, now() + 60))) == [True] * MANY
    drive(engine.resign(asks, now() + 60, doubt=False))


def test_the_size_of_a_record_is_what_it_takes() -> None:
    asks = [
        Ask(secrets.token_hex(16), shape, queue=True, not_after=0.0, payload=payload)
        for shape in (Shape("x", 5.0), Shape(f"{LONG}000000", DAY, Kind.SEMAPHORE, 9, 3))
        for payload in (b"", b"p" * 65_536)
    ]
    for each in asks:
        claim = LIMIT + messages.claim([each], [2**52], 2**52)
        assert len(claim) - CALL <= messages.claim_size(each) < len(claim)
        for sql in (messages.renew([each]), messages.resign([each], [2**53])):
            assert len(LIMIT + sql) - CALL <= messages.size(each)
    # What the page on MySQL says is enough for the longest name and payload.
    assert max(map(messages.claim_size, asks)) + CALL < 256 * 1024


def test_a_batch_is_split_by_bytes_and_by_lines_in_its_order() -> None:
    asks = [ask("x")] * 10
    order = [9, 0, 8, 1, 7, 2, 6, 3, 5, 4]

    def parts(taken: int, packet: int) -> list[list[int]]:
        return list(packed(asks, order, lambda _: taken, packet))

    assert parts(100, 2**24) == [order]
    assert parts(5000, LEAST) == [order[:3], order[3:6], order[6:9], order[9:]]  # by bytes
    assert parts(1, 6 * LINE) == [order[:3], order[3:6], order[6:9], order[9:]]  # by lines
    assert parts(2 * LEAST, LEAST) == [[place] for place in order]
    assert list(packed(asks, [], messages.size, LEAST)) == []


def test_a_batch_is_split_that_is_larger_than_a_packet_of_the_protocol() -> None:
    config = {"innodb-flush-log-at-trx-commit": "0", "max-allowed-packet": f"{2**26}"}
    with MariaDB(config=config) as server:
        install(server.url)
        engine = opener(parse(server.url), Threads())()
        try:
            asks = [ask(f"large{n}", b"p" * 65_536) for n in range(140)]
            assert granted(drive(engine.claim_all(asks, now() + 60))) == [True] * len(asks)
        finally:
            drive(engine.close())
