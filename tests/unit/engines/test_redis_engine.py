"""The Redis engine while the topology changes between two steps of one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import hiredis
import pytest

from lockfast.engines.redis.engine import RedisEngine
from lockfast.engines.redis.keys import keys
from lockfast.engines.redis.routes import SIZE, filled
from lockfast.engines.redis.topology import Sentinels, Topology
from lockfast.engines.redis.transport import UNITS, Address, Transport
from lockfast.engines.server_clock import ServerClock
from lockfast.errors import EngineUnavailable
from lockfast.port import CLIENT, Ask, Shape, Standing
from lockfast.runtime.drive import drive

OLD, NEW = Address("old", 6379), Address("new", 6379)
NOW = 100.0


class Failover:
    """A topology that names the old primary once, and then the new one."""

    together = True

    def __init__(self) -> None:
        self._left = [OLD]

    def find(self, bucket: int) -> Address:
        del bucket
        return self._left.pop() if self._left else NEW

    def doubt(self) -> None:
        """Know it already."""


class Servers:
    """A transport that knows a server's clock from the first request to it on."""

    def __init__(self, reply: object) -> None:
        self._reply = reply
        self.clocks: dict[Address, ServerClock] = {}
        self.asked: list[Address] = []
        self.forgotten: list[Address] = []
        self.roused = 0

    async def call(self, address: Address, packet: bytes, deadline: float) -> object:
        del packet, deadline
        self.asked.append(address)
        self.clocks[address] = ServerClock(1_700_000_000_000, NOW, UNITS)
        return self._reply

    async def pipeline(
        self, address: Address, packets: Sequence[bytes], deadline: float, *, heart: bool
    ) -> list[object]:
        del heart
        return [await self.call(address, packet, deadline) for packet in packets]

    def forget(self, address: Address) -> None:
        self.forgotten.append(address)

    def rouse(self) -> None:
        self.roused += 1


def engine_during_a_failover(reply: object) -> tuple[RedisEngine, Servers]:
    servers = Servers(reply)
    topology = cast("Topology", Failover())
    return RedisEngine(cast("Transport", servers), topology, lambda: NOW, 0), servers


def claims(number: int) -> list[Ask]:
    shape = Shape("x", 5.0)
    return [
        Ask(f"{each:032x}", shape, queue=True, not_after=NOW + 5, payload=b"")
        for each in range(number)
    ]


@pytest.mark.parametrize("number", [1, 2])
def test_a_failover_before_a_resignation_in_doubt_is_no_key_error(number: int) -> None:
    engine, servers = engine_during_a_failover([1] if number == 1 else [[1]] * number)
    assert drive(engine.resign(claims(number), NOW + 5, doubt=True)) == [True] * number
    assert set(servers.asked) == {OLD}, "the clock and the tombstone must be of one server"


def test_a_failover_before_several_claims_is_no_key_error() -> None:
    engine, servers = engine_during_a_failover([b"7", b"7"])
    found = drive(engine.claim_all(claims(2), NOW + 5))
    assert [isinstance(each, Standing) and each.ticket for each in found] == [7, 7]
    assert set(servers.asked) == {OLD}, "the clock and the claims must be of one server"


class Owners:
    """A topology of two servers, of which one keeps the buckets of a name."""

    together = False

    def __init__(self, name: str) -> None:
        self._bucket = keys(name).bucket

    def find(self, bucket: int) -> Address | None:
        return OLD if bucket == self._bucket else NEW

    def doubt(self) -> None:
        """Know it already."""


def test_the_time_of_a_name_is_that_of_its_own_server() -> None:
    servers = Servers(b"7")
    engine = RedisEngine(
        cast("Transport", servers), cast("Topology", Owners("x")), lambda: NOW + 0.5, 0
    )
    assert engine.time("x") is None, "no reply has told it yet"
    servers.clocks[OLD] = ServerClock(1_000_000, NOW, UNITS)
    assert engine.time("x") == 1000.5
    assert keys("y").bucket != keys("x").bucket
    assert engine.time("y") is None
    servers.clocks[NEW] = ServerClock(2_000_000, NOW, UNITS)
    assert (engine.time("x"), engine.time("y")) == (1000.5, 2000.5)


def test_the_time_of_a_name_whose_server_is_not_known_is_unknown() -> None:
    topology = Sentinels([Address("sentinel", 26379, sentinel=True)], "primary")
    engine = RedisEngine(cast("Transport", Servers(b"7")), topology, lambda: NOW, 0)
    assert engine.time("x") is None


def test_a_client_that_is_heard_wakes_the_heart() -> None:
    engine, servers = engine_during_a_failover(b"7")
    engine.hear("0" * CLIENT, on=True)
    assert servers.roused == 1


class Forgetful(Servers):
    """A transport to a server that lacks the script for all calls but some, and ends then."""

    def __init__(self, knows: int) -> None:
        super().__init__([[1]] * SIZE)
        self._knows = knows

    async def pipeline(
        self, address: Address, packets: Sequence[bytes], deadline: float, *, heart: bool
    ) -> list[object]:
        del address, deadline, heart
        if b"EVALSHA" not in packets[0]:
            raise EngineUnavailable("no connection", sent=False)
        lacking = hiredis.ReplyError("NOSCRIPT No matching script.")
        return [self._reply if i < self._knows else lacking for i in range(len(packets))]


@pytest.mark.parametrize("knows", [0, 1])
def test_a_request_that_was_carried_out_for_some_claims_was_sent(knows: int) -> None:
    """Another client may bring the script between two calls of one round trip."""
    engine = RedisEngine(
        cast("Transport", Forgetful(knows)), cast("Topology", Failover()), lambda: NOW, 0
    )
    with pytest.raises(EngineUnavailable) as caught:
        drive(engine.resign(claims(2 * SIZE + 1), NOW + 5, doubt=False))
    assert caught.value.sent == bool(knows)


def test_a_reply_for_another_number_of_claims_is_not_believed() -> None:
    engine, servers = engine_during_a_failover([b"7"])
    with pytest.raises(EngineUnavailable, match="cannot be read"):
        drive(engine.claim_all(claims(2), NOW + 5))
    assert servers.forgotten == [OLD]


def test_a_request_that_failed_for_different_reasons_raises_none_of_them() -> None:
    lost, refused = EngineUnavailable("lost", sent=False), EngineUnavailable("late", sent=True)
    assert filled([False, False], {0: lost, 1: refused}) == [lost, refused]
    assert filled([False, True], {0: lost}) == [lost, True]
    with pytest.raises(EngineUnavailable, match="lost"):
        filled([False, False], {0: lost, 1: lost})
