"""Routes: choose the server for each claim, and follow its redirections."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import hiredis

from lockfast.engines.redis import messages, replies
from lockfast.engines.redis.keys import BUCKETS, command, keys
from lockfast.engines.redis.scripts import Script
from lockfast.engines.redis.topology import Topology
from lockfast.engines.redis.transport import DEMOTED, Address, Transport, code, failure
from lockfast.errors import EngineError, EngineRefused, EngineUnavailable
from lockfast.port import Ask
from lockfast.runtime.base import Clock

T = TypeVar("T")
Errors = dict[int, EngineError]
"""The errors of claims, by their index."""
Work = Callable[[Address, list[list[int]], float], Awaitable[None]]
"""A request for the claims of one server: its address, groups of indexes, and a deadline."""
PAUSE = 0.5  # seconds at most for which a node that did not answer is not asked again
MOST = 2 / 3  # the part of the remaining time that a node may take while other nodes follow
SIZE = 64  # claims in one call of a script, during which Redis serves nobody else
BRIEF = 0.1  # seconds at least for a node that did not answer last time


class Routes:
    """The part of the engine that finds servers, repeats calls and groups claims by server."""

    def __init__(self, transport: Transport, topology: Topology, clock: Clock) -> None:
        """Have the transport tell the topology when a server does not answer."""
        self._transport = transport
        self._topology = topology
        transport.trouble = topology.doubt
        self._now = clock
        self._silent: dict[Address, float] = {}
        """Servers that did not answer, and until when a Cluster's requests leave them out."""

    async def _nodes(self, deadline: float, *, again: bool) -> list[Address]:
        """Return the servers that have buckets. `again`: ask for them even if they are known."""
        if again or self._topology.find(0) is None:
            await self._where(0, deadline)
        every = (self._topology.find(bucket) for bucket in range(BUCKETS))
        return sorted({address for address in every if address is not None})

    async def _where(self, bucket: int, deadline: float) -> Address:
        """Refresh the topology, and return the server that has the bucket."""

        async def call(address: Address, packet: bytes) -> Any:
            now = self._now()  # half of the remaining time, so that some is left for the next
            return await self._transport.call(address, packet, now + min((deadline - now) / 2, 1.0))

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
        name: str,
        pack: Callable[[Address], bytes],
        deadline: float,
    ) -> tuple[Address, Any]:
        """Repeat a call after an error, where the name has moved to or with the script's source.

        Return the server that answered, and its reply. Each call is packed again, because it may
        contain times, and another server has another clock.
        """
        whole = False
        for _ in range(6):
            said = str(reply)
            if said.startswith("NOSCRIPT"):
                whole = True
            else:
                there = self._topology.moved(keys(name).bucket, said, address)
                if there is None:
                    break
                address = there
                if address not in self._transport.clocks:
                    await self._transport.call(address, command("PING"), deadline)
            packet = script.whole(pack(address)) if whole else pack(address)
            if said.startswith("ASK "):
                pair = [command("ASKING"), packet]
                reply = (await self._transport.pipeline(address, pair, deadline, heart=False))[1]
            else:
                reply = await self._transport.call(address, packet, deadline)
            if type(reply) is not hiredis.ReplyError:
                return address, reply
        raise self._failure(reply, address, name)

    def _failure(
        self, reply: hiredis.ReplyError, address: Address, name: str
    ) -> EngineUnavailable | EngineRefused:
        """Return lockfast's error for an error reply about a name. Doubt the topology if the server
        cannot work now, and close its connections if it has become a replica.
        """
        error = replies.other_format(reply, name) or failure(reply, address)
        if isinstance(error, EngineUnavailable):
            self._topology.doubt()
        if code(reply) == DEMOTED:
            self._transport.forget(address)
        return error

    def _malformed(self, error: replies.Malformed, address: Address) -> EngineUnavailable:
        """Return lockfast's error for a malformed reply, and close the server's connections."""
        self._transport.forget(address)
        self._topology.doubt()
        return EngineUnavailable(
            f"Redis at {address}: the reply cannot be read: {error}", sent=True
        )

    async def _scripts(
        self,
        script: Script,
        address: Address,
        calls: Sequence[bytes],
        deadline: float,
        *,
        heart: bool,
    ) -> list[Any]:
        """Run a script several times in one round trip, or in two if the server lacks it."""
        answers = await self._transport.pipeline(address, calls, deadline, heart=heart)
        lacking = [
            i
            for i, reply in enumerate(answers)
            if isinstance(reply, hiredis.ReplyError) and str(reply).startswith("NOSCRIPT")
        ]
        if lacking:
            some = [script.whole(calls[i]) for i in lacking]
            try:
                again = await self._transport.pipeline(address, some, deadline, heart=heart)
            except EngineUnavailable as error:
                done = len(lacking) < len(calls)  # another client has brought the script meanwhile
                raise EngineUnavailable(error.message, sent=error.sent or done) from error
            for i, reply in zip(lacking, again, strict=True):
                answers[i] = reply
        return answers

    async def _together(
        self,
        script: Script,
        address: Address,
        groups: list[list[int]],
        pack: Callable[[list[int]], bytes],
        deadline: float,
    ) -> list[tuple[int, Any]]:
        """Run a script for several claims at a time, in one round trip, or in two if the server
        lacks it. Return the reply for each index. `pack`: packs a call for these indexes.
        """
        parts = [group[at : at + SIZE] for group in groups for at in range(0, len(group), SIZE)]
        told: list[tuple[int, Any]] = []
        while parts:
            calls = [pack(part) for part in parts]
            answers = await self._scripts(script, address, calls, deadline, heart=False)
            singly: list[list[int]] = []
            for part, reply in zip(parts, answers, strict=True):
                if len(part) > 1 and _forbidden(reply):
                    singly += [[i] for i in part]
                else:
                    told += zip(part, replies.several(reply, len(part)), strict=True)
            parts = singly
        return told

    async def _each(self, asks: Sequence[Ask], deadline: float, work: Work) -> Errors:
        """Do the work on each server, and return the errors by the index of the claim.

        A server that is down or stalled must not use up the time for claims on the others. So each
        gets a share of the time, and one that did not answer comes last and gets little.
        """
        grouped, errors = await self._grouped(asks, deadline) if asks else ({}, {})
        order = sorted(grouped, key=lambda address: self._silent.get(address, 0.0))
        for number, address in enumerate(order):
            now = self._now()
            try:
                if now < self._silent.get(address, 0.0) and not self._topology.together:
                    raise EngineUnavailable(
                        f"Redis at {address} did not answer a moment ago", sent=False
                    )
                share = deadline - now
                if number + 1 < len(order):
                    share *= MOST
                if address in self._silent and len(order) > 1:
                    share = min(share, max((deadline - now) / 4, BRIEF))
                await self._timed(address, grouped[address], now + share, work)
            except EngineError as error:
                errors.update(dict.fromkeys((i for each in grouped[address] for i in each), error))
        return errors

    async def _timed(
        self, address: Address, groups: list[list[int]], deadline: float, work: Work
    ) -> None:
        began = self._now()
        try:
            await work(address, groups, deadline)
        except replies.Malformed as error:
            raise self._malformed(error, address) from error
        except EngineUnavailable:
            # Leave the server out for no longer than it took to fail. A longer pause after one
            # slow answer would cost short leases.
            now = self._now()
            self._silent[address] = now + min(PAUSE, now - began)
            raise
        self._silent.pop(address, None)

    async def _grouped(
        self, asks: Sequence[Ask], deadline: float
    ) -> tuple[dict[Address, list[list[int]]], Errors]:
        """Group the indexes of claims by server, and there into groups that one call may carry.

        Also return the errors of claims whose server is not known.
        """
        if self._topology.together:
            address = self._topology.find(0) or await self._where(0, deadline)
            return {address: [list(range(len(asks)))]}, {}
        grouped: dict[Address, dict[int, list[int]]] = {}
        errors: Errors = {}
        for i, ask in enumerate(asks):
            bucket = messages.renewal(ask).bucket
            found = self._topology.find(bucket)
            if found is None and not errors:  # after one failure, further attempts would fail too
                try:
                    found = await self._where(bucket, deadline)
                except EngineUnavailable as error:
                    errors[i] = error
            if found is not None:
                grouped.setdefault(found, {}).setdefault(bucket, []).append(i)
            elif i not in errors:
                errors[i] = next(iter(errors.values()))
        return {address: list(groups.values()) for address, groups in grouped.items()}, errors


def _forbidden(reply: Any) -> bool:
    """Return whether the user may not use a key of a call. Redis checks all keys before it runs the
    script, and one key must not fail the claims on others.
    """
    return isinstance(reply, hiredis.ReplyError) and code(reply) == "NOPERM"


def filled(found: list[T | Exception], errors: Errors) -> list[T | Exception]:
    """Return `found` with the errors at their indexes. Raise one that is the error of every claim,
    since it then says of the whole request whether it was sent.
    """
    different = {id(error): error for error in errors.values()}
    if len(errors) == len(found) and len(different) == 1:
        raise different.popitem()[1]
    for i, error in errors.items():
        found[i] = error
    return found
