"""The Redis engine: the port, in terms of scripts, a topology and a transport. No colour."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import hiredis

from lockfast.engines.redis import packets
from lockfast.engines.redis.guarantees import guarantees, read
from lockfast.engines.redis.keys import BUCKETS, PREFIX, command, keys
from lockfast.engines.redis.scripts import CLAIM, INSPECT, RENEW, RESIGN, Script
from lockfast.engines.redis.topology import Topology
from lockfast.engines.redis.wire import Address, Wire, failure, patience
from lockfast.errors import CapacityMismatch, EngineError, EngineUnavailable
from lockfast.guarantees import Guarantees
from lockfast.port import EVERYONE, Ask, Entry, Page, Standing, Wake
from lockfast.runtime.base import Clock

SHOWN = 1000  # claims of one lock that `inspect` shows
SCANNED = 500  # keys per page of `inspect`
CALM = 0.1  # seconds between attempts to subscribe


class RedisEngine:
    """One client's engine."""

    def __init__(self, wire: Wire, topology: Topology, clock: Clock, base: int) -> None:
        """Add `base` to every new ticket."""
        self._wire = wire
        self._topology = topology
        wire.trouble = topology.doubt
        self._now = clock
        text = str(base).encode()
        self._base = b"$%d\r\n%b\r\n" % (len(text), text)
        self._channel: str | None = None

    async def claim(self, ask: Ask, deadline: float) -> Standing | None:
        """Append and report, in one round trip."""
        shape = ask.shape
        form = packets.claim_form(shape.name, shape.ttl, shape.capacity, shape.weight)
        address = self._topology.find(form.bucket)
        offset = self._wire.offsets.get(address) if address else None
        if address is None or offset is None:
            address, offset = await self._meet(ask, form.bucket, deadline)
        late = int((ask.not_after + offset) * 1000)
        ask.late = max(ask.late, late)
        packet = packets.claim(form, ask, late, self._base)
        reply = await self._wire.call(address, packet, deadline)
        if type(reply) is bytes:
            return packets.standing(reply, ask)
        if type(reply) is hiredis.ReplyError:
            reply = await self._insist(reply, CLAIM, address, form.bucket, packet, deadline)
        if type(reply) is list:
            told = packets.refusal(reply, ask)
            if told is not None:
                # The id is dead, or the server's clock was moved: learn, so that the next id lives.
                self._wire.offsets[address] = told / 1000 - self._now()
                return None
        return packets.standing(reply, ask)

    async def claim_all(
        self, asks: Sequence[Ask], deadline: float
    ) -> list[Standing | Exception | None]:
        """Append several: one round trip per server."""
        found: list[Standing | Exception | None] = [None] * len(asks)
        for address, groups in (await self._grouped(asks, deadline)).items():
            order = [i for group in groups for i in group]
            await self._meet(asks[order[0]], packets.renewal(asks[order[0]]).bucket, deadline)
            calls = []
            for i in order:
                shape = asks[i].shape
                form = packets.claim_form(shape.name, shape.ttl, shape.capacity, shape.weight)
                late = int((asks[i].not_after + self._wire.offsets[address]) * 1000)
                asks[i].late = max(asks[i].late, late)
                calls.append(packets.claim(form, asks[i], late, self._base))
            replies = await self._scripts(CLAIM, address, calls, deadline, heart=False)
            for i, reply in zip(order, replies, strict=True):
                found[i] = self._claimed(reply, asks[i], address)
        return found

    def _claimed(self, reply: Any, ask: Ask, address: Address) -> Standing | Exception | None:
        if isinstance(reply, hiredis.ReplyError):
            self._topology.doubt()
            return failure(reply, address)
        try:
            dead = packets.refusal(reply, ask) is not None
        except CapacityMismatch as error:
            return error
        return None if dead else packets.standing(reply, ask)

    async def _meet(self, ask: Ask, bucket: int, deadline: float) -> tuple[Address, float]:
        """Find the bucket's server and learn its clock; from here on there is something to hear."""
        if self._channel is None:
            self._channel = PREFIX + ask.id[:22]
            self._wire.rouse()
        address = self._topology.find(bucket) or await self._where(bucket, deadline)
        if address not in self._wire.offsets:
            await self._wire.call(address, command("PING"), deadline)
        return address, self._wire.offsets[address]

    async def renew(
        self, asks: Sequence[Ask], deadline: float
    ) -> list[Standing | Exception | None]:
        """Extend: one call per server where names may share a call, else one per bucket."""
        found: list[Standing | Exception | None] = [None] * len(asks)
        for address, groups in (await self._grouped(asks, deadline)).items():
            calls = [packets.renew([packets.renewal(asks[i]) for i in group]) for group in groups]
            replies = await self._scripts(RENEW, address, calls, deadline, heart=True)
            received = self._now()
            for group, reply in zip(groups, replies, strict=True):
                if isinstance(reply, hiredis.ReplyError):
                    for i in group:
                        found[i] = failure(reply, address)
                    self._topology.doubt()
                    continue
                *standings, told = reply
                self._wire.offsets[address] = int(told) / 1000 - received
                for i, each in zip(group, standings, strict=True):
                    found[i] = _renewed(each, asks[i], address)
        return found

    async def resign(self, asks: Sequence[Ask], deadline: float, *, doubt: bool) -> list[bool]:
        """Remove for good: one round trip."""
        if len(asks) == 1:
            form = packets.resign_form(asks[0].shape.name)
            address = self._topology.find(form.bucket) or await self._where(form.bucket, deadline)
            if doubt:
                await self._meet(asks[0], form.bucket, deadline)
            packet = packets.resign(form, asks[0], self._tomb(asks[0], address) if doubt else 0)
            reply = await self._wire.call(address, packet, deadline)
            if type(reply) is hiredis.ReplyError:
                reply = await self._insist(reply, RESIGN, address, form.bucket, packet, deadline)
            return [reply[0] == 1]
        removed = [False] * len(asks)
        for address, groups in (await self._grouped(asks, deadline)).items():
            order = [i for group in groups for i in group]
            if doubt:
                await self._meet(asks[order[0]], keys(asks[order[0]].shape.name).bucket, deadline)
            calls = [
                packets.resign(
                    packets.resign_form(asks[i].shape.name),
                    asks[i],
                    self._tomb(asks[i], address) if doubt else 0,
                )
                for i in order
            ]
            replies = await self._scripts(RESIGN, address, calls, deadline, heart=False)
            for i, reply in zip(order, replies, strict=True):
                if isinstance(reply, hiredis.ReplyError):
                    self._topology.doubt()
                    raise failure(reply, address)
                removed[i] = reply[0] == 1
        return removed

    def abandon(self, asks: Sequence[Ask]) -> None:
        """Write the resignation behind the claim on the same connection, where that can be done.

        A server that has not seen the script yet answers NOSCRIPT, which nobody reads; the heart
        resigns the same claims again.
        """
        for ask in asks:
            form = packets.resign_form(ask.shape.name)
            address = self._topology.find(form.bucket)
            if address is not None and address in self._wire.offsets:
                self._wire.post(address, packets.resign(form, ask, self._tomb(ask, address)))

    def _tomb(self, ask: Ask, address: Address) -> int:
        """Give the server's time, in ms, until which no copy of the claim may come to life.

        At least a moment from now: an expiry in the past would delete the tombstone at once. And
        never before what a copy said: a reply that was read late, or a clock that was moved, has
        since made the server's time look earlier than it is.
        """
        told = int((max(ask.not_after, self._now()) + self._wire.offsets[address]) * 1000)
        return max(told, ask.late)

    async def listen(self, deadline: float | None) -> list[Wake]:
        """Sleep on the heart's connection. A cut subscription is made anew."""
        try:
            if self._channel is None:
                await self._wire.pause(deadline)
                return []
            address = self._topology.find(0)
            if address is None:
                address = await self._where(0, patience(deadline, self._now()))
            messages = await self._wire.listen(address, self._channel, deadline)
        except EngineError:
            self._topology.doubt()
            soon = self._now() + CALM
            await self._wire.pause(soon if deadline is None else min(deadline, soon))
            return []
        if messages is None:
            return [EVERYONE]
        wakes = []
        for message in messages:
            ident, _, floor = message.decode().partition(" ")
            wakes.append(Wake(ident, granted=True, floor=int(floor)))
        return wakes

    def rouse(self) -> None:
        """Wake the listener."""
        self._wire.rouse()

    async def inspect(self, names: str, cursor: str | None, *, exact: bool) -> Page:
        """Show the claims on one name, or those that one page of the key space holds."""
        deadline = self._now() + 5.0
        if exact:
            bucket = keys(names).bucket
            address = self._topology.find(bucket) or await self._where(bucket, deadline)
            packet = packets.inspect(names, SHOWN)
            reply = await self._wire.call(address, packet, deadline)
            if type(reply) is hiredis.ReplyError:
                reply = await self._insist(reply, INSPECT, address, bucket, packet, deadline)
            return Page(packets.entries(names, reply), None)
        nodes = await self._nodes(deadline)
        number, _, position = (cursor or "0 0").partition(" ")
        address = nodes[int(number)]
        pattern = f"{PREFIX}{{*}}={_literal(names)}*"
        scan = command("SCAN", position, "MATCH", pattern, "COUNT", SCANNED)
        found = await self._wire.call(address, scan, deadline)
        if isinstance(found, hiredis.ReplyError):
            raise failure(found, address)
        position = found[0].decode()
        # A `}=` inside of a name matches the pattern too.
        every = (key.decode().partition("}=")[2] for key in found[1])
        shown = [name for name in every if name.startswith(names)]
        calls = [packets.inspect(name, SHOWN) for name in shown]
        replies = await self._scripts(INSPECT, address, calls, deadline, heart=False)
        entries: list[Entry] = []
        for name, reply in zip(shown, replies, strict=True):
            if not isinstance(reply, hiredis.ReplyError):  # a slot that just moved away
                entries += packets.entries(name, reply)
        if position != "0":
            return Page(entries, f"{number} {position}")
        more = int(number) + 1 < len(nodes)
        return Page(entries, f"{int(number) + 1} 0" if more else None)

    async def guarantees(self, deadline: float) -> Guarantees:
        """Ask every server that has locks."""
        nodes = []
        for address in await self._nodes(deadline):
            reply = await self._wire.call(address, command("INFO"), deadline)
            if isinstance(reply, hiredis.ReplyError):
                raise failure(reply, address)
            nodes.append(read(reply))
        return guarantees(nodes, self._topology.kind)

    async def _nodes(self, deadline: float) -> list[Address]:
        """List the servers that have buckets."""
        await self._where(0, deadline)
        every = (self._topology.find(bucket) for bucket in range(BUCKETS))
        return sorted({address for address in every if address is not None})

    def reset(self) -> None:
        """Forget every connection."""
        self._wire.reset()

    async def close(self) -> None:
        """Close the connections."""
        await self._wire.close()

    async def _where(self, bucket: int, deadline: float) -> Address:
        """Learn which server has the bucket."""

        async def call(address: Address, packet: bytes) -> Any:
            return await self._wire.call(address, packet, min(deadline, self._now() + 1.0))

        await self._topology.refresh(call)
        found = self._topology.find(bucket)
        if found is None:
            raise EngineUnavailable("that part of the cluster has no primary now", sent=False)
        return found

    async def _insist(  # noqa: PLR0913, PLR0917  # all that another attempt needs
        self,
        reply: Any,
        script: Script,
        address: Address,
        bucket: int,
        packet: bytes,
        deadline: float,
    ) -> Any:
        """After an error: follow a bucket that moved, bring a script along that is not there."""
        for _ in range(6):
            said = str(reply)
            if said.startswith("NOSCRIPT"):
                packet = script.whole(packet)
            else:
                there = self._topology.moved(bucket, said)
                if there is None:
                    break
                address = there
            if said.startswith("ASK "):
                pair = [command("ASKING"), packet]
                reply = (await self._wire.pipeline(address, pair, deadline, heart=False))[1]
            else:
                reply = await self._wire.call(address, packet, deadline)
            if type(reply) is not hiredis.ReplyError:
                return reply
        error = failure(reply, address)
        if isinstance(error, EngineUnavailable):
            self._topology.doubt()
        raise error

    async def _scripts(
        self,
        script: Script,
        address: Address,
        calls: Sequence[bytes],
        deadline: float,
        *,
        heart: bool,
    ) -> list[Any]:
        """Run a script several times in one round trip."""
        replies = await self._wire.pipeline(address, calls, deadline, heart=heart)
        lacking = [
            i
            for i, reply in enumerate(replies)
            if isinstance(reply, hiredis.ReplyError) and str(reply).startswith("NOSCRIPT")
        ]
        if lacking:
            some = [script.whole(calls[i]) for i in lacking]
            again = await self._wire.pipeline(address, some, deadline, heart=heart)
            for i, reply in zip(lacking, again, strict=True):
                replies[i] = reply
        return replies

    async def _grouped(
        self, asks: Sequence[Ask], deadline: float
    ) -> dict[Address, list[list[int]]]:
        """Sort claims by server, and within it into those that one call may carry."""
        if self._topology.together:
            address = self._topology.find(0) or await self._where(0, deadline)
            return {address: [list(range(len(asks)))]}
        grouped: dict[Address, dict[int, list[int]]] = {}
        for i, ask in enumerate(asks):
            bucket = packets.renewal(ask).bucket
            address = self._topology.find(bucket) or await self._where(bucket, deadline)
            grouped.setdefault(address, {}).setdefault(bucket, []).append(i)
        return {address: list(groups.values()) for address, groups in grouped.items()}


def _literal(text: str) -> str:
    """Escape what SCAN's pattern would take for a wildcard."""
    return re.sub(r"([\\*?\[\]^-])", r"\\\1", text)


def _renewed(reply: Any, ask: Ask, address: Address) -> Standing | Exception | None:
    if reply is None:
        return None
    if isinstance(reply, hiredis.ReplyError):
        return failure(reply, address)
    return packets.standing(reply, ask)
