"""The Redis engine while the topology changes between two steps of one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import pytest

from lockfast.engines.redis.engine import RedisEngine
from lockfast.engines.redis.topology import Topology
from lockfast.engines.redis.transport import UNITS, Address, Transport
from lockfast.engines.server_clock import ServerClock
from lockfast.port import Ask, Shape, Standing
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
    engine, servers = engine_during_a_failover([1])
    assert drive(engine.resign(claims(number), NOW + 5, doubt=True)) == [True] * number
    assert set(servers.asked) == {OLD}, "the clock and the tombstone must be of one server"


def test_a_failover_before_several_claims_is_no_key_error() -> None:
    engine, servers = engine_during_a_failover(b"7")
    found = drive(engine.claim_all(claims(2), NOW + 5))
    assert [isinstance(each, Standing) and each.ticket for each in found] == [7, 7]
    assert set(servers.asked) == {OLD}, "the clock and the claims must be of one server"


def test_the_first_claim_lets_the_client_listen_though_its_servers_clock_is_known() -> None:
    engine, servers = engine_during_a_failover(b"7")
    servers.clocks[OLD] = ServerClock(1_700_000_000_000, NOW, UNITS)  # it told the topology
    drive(engine.claim(claims(1)[0], NOW + 5))
    assert servers.roused == 1
