"""The Redis engine: implements the port with Lua scripts, a topology and a transport."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import hiredis

from lockfast.engines.redis import messages, replies
from lockfast.engines.redis.keys import command, keys
from lockfast.engines.redis.listening import Listening
from lockfast.engines.redis.routes import filled
from lockfast.engines.redis.scripts import (
    ATTACH,
    CLAIM,
    CLAIMS,
    DEPART,
    RENEW,
    RESIGN,
    RESIGNS,
    Script,
)
from lockfast.engines.redis.topology import Topology
from lockfast.engines.redis.transport import UNITS, Address, Transport, code
from lockfast.engines.server_clock import ServerClock
from lockfast.errors import EngineError, KindMismatch
from lockfast.guarantees import Finding
from lockfast.port import Ask, Engine, ServerTime, Standing
from lockfast.runtime.base import Clock


class RedisEngine(Listening):
    """The Redis engine of one client."""

    stand_in: Callable[[], Engine]
    """Makes a blocking engine for the same URL, which can renew this engine's claims, because only
    the server knows which claims live. `opener` sets it for asyncio."""

    def __init__(
        self,
        transport: Transport,
        topology: Topology,
        clock: Clock,
        base: int,
        weak: Sequence[Finding] = (),
    ) -> None:
        """Add `base` to every new ticket. `weak`: findings about unprotected connections."""
        super().__init__(transport, topology, clock, weak)
        text = str(base).encode()
        self._base = b"$%d\r\n%b\r\n" % (len(text), text)

    async def claim(self, ask: Ask, deadline: float) -> Standing | None:
        """Append a claim and return its standing, in one round trip."""
        shape = ask.shape
        form = messages.claim_form(shape.name, shape.ttl, shape.kind, shape.capacity, shape.weight)
        address = self._topology.find(form.bucket) or await self._where(form.bucket, deadline)
        clock = self._transport.clocks.get(address)
        if clock is None:
            clock = await self._meet(address, deadline)
        packet = messages.claim(form, ask, clock.latest(ask), self._base)
        reply = await self._transport.call(address, packet, deadline)
        if type(reply) is hiredis.ReplyError:
            pack = partial(self._claim, form, ask)
            address, reply = await self._insist(reply, CLAIM, address, shape.name, pack, deadline)
        try:
            if type(reply) is list:
                told = replies.refusal(reply, ask)
                if told is not None:
                    # The id is dead, or the server's clock has jumped. Learn it for the next id.
                    self._transport.clocks[address] = ServerClock(told, self._now(), UNITS)
                    return None
            return replies.standing(reply, ask)
        except replies.Malformed as error:
            raise self._malformed(error, address) from error

    async def claim_all(
        self, asks: Sequence[Ask], deadline: float
    ) -> list[Standing | Exception | None]:
        """Append several claims, in one round trip per server."""
        found: list[Standing | Exception | None] = [None] * len(asks)

        async def work(address: Address, groups: list[list[int]], end: float) -> None:
            await self._meet(address, end)

            def pack(some: list[int]) -> bytes:
                return messages.claims([self._claim_part(asks[i], address) for i in some])

            for i, reply in await self._together(CLAIMS, address, groups, pack, end):
                found[i] = self._claimed(reply, asks[i], address)

        return filled(found, await self._each(asks, deadline, work))

    def _claimed(self, reply: Any, ask: Ask, address: Address) -> Standing | Exception | None:
        if isinstance(reply, hiredis.ReplyError):
            return self._failure(reply, address, ask.shape.name)
        try:
            dead = replies.refusal(reply, ask) is not None
        except KindMismatch as error:
            return error
        return None if dead else replies.standing(reply, ask)

    def _claim(self, form: messages.ClaimForm, ask: Ask, address: Address) -> bytes:
        """Pack a claim with its `not_after` by that server's clock."""
        late = self._transport.clocks[address].latest(ask)
        return messages.claim(form, ask, late, self._base)

    def _claim_part(self, ask: Ask, address: Address) -> messages.Part:
        shape = ask.shape
        form = messages.claim_form(shape.name, shape.ttl, shape.kind, shape.capacity, shape.weight)
        return messages.claim_part(form, self._claim(form, ask, address))

    async def _meet(self, address: Address, deadline: float) -> ServerClock:
        """Return a server's clock.

        The caller has chosen the server. After a failover the topology may name another one.
        """
        if address not in self._transport.clocks:
            await self._transport.call(address, command("PING"), deadline)
        return self._transport.clocks[address]

    async def renew(
        self, asks: Sequence[Ask], deadline: float
    ) -> list[Standing | Exception | None]:
        """Renew claims, in one call per server where names may share it, else one per bucket."""
        found: list[Standing | Exception | None] = [None] * len(asks)

        async def work(address: Address, groups: list[list[int]], end: float) -> None:
            calls = [messages.renew([messages.renewal(asks[i]) for i in group]) for group in groups]
            answers = await self._scripts(RENEW, address, calls, end, heart=True)
            received = self._now()
            for group, reply in zip(groups, answers, strict=True):
                if isinstance(reply, hiredis.ReplyError):
                    for i in group:
                        found[i] = await self._renew_moving(asks[i], reply, address, end)
                    continue
                standings, told = replies.renewed(reply, len(group))
                self._transport.clocks[address] = ServerClock(told, received, UNITS)
                for i, each in zip(group, standings, strict=True):
                    found[i] = self._renewed(each, asks[i], address)

        return filled(found, await self._each(asks, deadline, work))

    async def _renew_moving(
        self, ask: Ask, reply: Any, address: Address, deadline: float
    ) -> Standing | Exception | None:
        """Renew a claim after an error if its slot moves or has moved, else return the error.

        While a slot moves, a node answers TRYAGAIN to a script if some of its keys are absent. A
        sole holder has one key only, so that key alone is enough. If it has moved, ASK says where.
        """
        part, alone, asking = messages.renewal(ask), False, False
        for _ in range(4):
            what = code(reply)
            there = self._topology.moved(part.bucket, str(reply), address)
            if there is not None:
                address, asking = there, what == "ASK"
            elif what == "TRYAGAIN" and not alone and not self._topology.together:
                alone = True
            else:
                break
            packet = messages.renew_alone(ask) if alone else RENEW.whole(messages.renew([part]))
            calls = [command("ASKING"), packet] if asking else [packet]
            reply = (await self._transport.pipeline(address, calls, deadline, heart=True))[-1]
            if not isinstance(reply, hiredis.ReplyError):
                return self._renewed(replies.renewed(reply, 1)[0][0], ask, address)
        return self._failure(reply, address, ask.shape.name)

    def _renewed(self, reply: Any, ask: Ask, address: Address) -> Standing | Exception | None:
        if reply is None:
            return None
        if isinstance(reply, hiredis.ReplyError):
            return self._failure(reply, address, ask.shape.name)
        return replies.standing(reply, ask)

    async def resign(
        self, asks: Sequence[Ask], deadline: float, *, doubt: bool
    ) -> list[bool | Exception]:
        """Remove claims for good, in one round trip per server."""
        if len(asks) == 1:
            name = asks[0].shape.name
            form = messages.resign_form(name)
            address = self._topology.find(form.bucket) or await self._where(form.bucket, deadline)
            if doubt:
                await self._meet(address, deadline)
            packet = messages.resign(form, asks[0], self._tomb(asks[0], address) if doubt else 0)
            reply = await self._transport.call(address, packet, deadline)
            if type(reply) is hiredis.ReplyError:
                pack = partial(self._resignation, form, asks[0], doubt)
                _, reply = await self._insist(reply, RESIGN, address, name, pack, deadline)
            try:
                return [replies.resigned(reply)]
            except replies.Malformed as error:
                raise self._malformed(error, address) from error
        removed: list[bool | Exception] = [False] * len(asks)

        async def work(address: Address, groups: list[list[int]], end: float) -> None:
            if doubt:
                await self._meet(address, end)

            def pack(some: list[int]) -> bytes:
                parts = [self._resign_part(asks[i], address, doubt=doubt) for i in some]
                return messages.resigns(parts)

            for i, reply in await self._together(RESIGNS, address, groups, pack, end):
                removed[i] = self._resigned(reply, asks[i], address)

        return filled(removed, await self._each(asks, deadline, work))

    def _resigned(self, reply: Any, ask: Ask, address: Address) -> bool | Exception:
        if isinstance(reply, hiredis.ReplyError):
            return self._failure(reply, address, ask.shape.name)
        return replies.resigned(reply)

    async def attach(self, asks: Sequence[Ask], deadline: float) -> list[bool | Exception]:
        """Store which connection of the service claims belong to, in one round trip per server."""
        found: list[bool | Exception] = [False] * len(asks)

        async def work(address: Address, groups: list[list[int]], end: float) -> None:
            def pack(some: list[int]) -> bytes:
                return messages.attach([messages.attachment(asks[i]) for i in some])

            for i, reply in await self._together(ATTACH, address, groups, pack, end):
                again = partial(_packed, pack, [i])
                found[i] = await self._flag(reply, ATTACH, asks[i], address, again, end)

        return filled(found, await self._each(asks, deadline, work))

    async def depart(self, asks: Sequence[Ask], deadline: float) -> list[bool | Exception]:
        """Remove the claims that still belong to their connection, in one round trip per server."""
        found: list[bool | Exception] = [False] * len(asks)

        async def work(address: Address, groups: list[list[int]], end: float) -> None:
            await self._meet(address, end)
            every = [i for group in groups for i in group]
            packs = [partial(self._departure, asks[i]) for i in every]
            calls = [pack(address) for pack in packs]
            answers = await self._scripts(DEPART, address, calls, end, heart=False)
            for i, pack, reply in zip(every, packs, answers, strict=True):
                found[i] = await self._flag(reply, DEPART, asks[i], address, pack, end)

        return filled(found, await self._each(asks, deadline, work))

    def _departure(self, ask: Ask, address: Address) -> bytes:
        return messages.depart(ask, self._tomb(ask, address))

    async def _flag(  # noqa: PLR0913, PLR0917  # all that another attempt needs
        self,
        reply: Any,
        script: Script,
        ask: Ask,
        address: Address,
        pack: Callable[[Address], bytes],
        deadline: float,
    ) -> bool | Exception:
        """Return what a script says of one claim. Follow it to where its name has moved."""
        if isinstance(reply, hiredis.ReplyError):
            try:
                _, reply = await self._insist(
                    reply, script, address, ask.shape.name, pack, deadline
                )
            except EngineError as error:
                return error
        return replies.resigned(reply if isinstance(reply, list) else [reply])

    def abandon(self, asks: Sequence[Ask]) -> None:
        """Send resignations after their claims on the same connection, where that can be done.

        A server that does not have the script yet answers NOSCRIPT, which nobody reads. The heart
        resigns the same claims again.
        """
        for ask in asks:
            form = messages.resign_form(ask.shape.name)
            address = self._topology.find(form.bucket)
            if address is not None and address in self._transport.clocks:
                self._transport.post(address, messages.resign(form, ask, self._tomb(ask, address)))

    def time(self, name: str) -> float | None:
        """Return the time of the server that keeps this name."""
        address = self._topology.find(keys(name).bucket)
        clock = None if address is None else self._transport.clocks.get(address)
        return None if clock is None else clock.seconds(self._now())

    def _resignation(
        self,
        form: messages.ResignForm,
        ask: Ask,
        doubt: bool,  # noqa: FBT001  # a value, not a switch
        address: Address,
    ) -> bytes:
        return messages.resign(form, ask, self._tomb(ask, address) if doubt else 0)

    def _resign_part(self, ask: Ask, address: Address, *, doubt: bool) -> messages.Part:
        form = messages.resign_form(ask.shape.name)
        return messages.resign_part(form, self._resignation(form, ask, doubt, address))

    def _tomb(self, ask: Ask, address: Address) -> ServerTime:
        """Return the server's time until which a tombstone must refuse copies of the claim. It is
        not in the past, because Redis would delete such a tombstone at once.
        """
        clock = self._transport.clocks[address]
        return max(clock.last(ask), clock.at(self._now()))

    def reset(self) -> None:
        """Forget every connection, because the process has forked."""
        self._transport.reset()

    async def close(self) -> None:
        """Close the connections."""
        await self._transport.close()


def _packed(pack: Callable[[list[int]], bytes], some: list[int], address: Address) -> bytes:  # noqa: ARG001  # it has no times
    return pack(some)
