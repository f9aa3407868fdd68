"""Reads locks, records of breaks and settings from servers. It writes only the records."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import hiredis

from lockfast.engines.redis import messages, replies
from lockfast.engines.redis.guarantees import guarantees, read
from lockfast.engines.redis.keys import PREFIX, command, keys
from lockfast.engines.redis.routes import Routes
from lockfast.engines.redis.scripts import INSPECT, RECORD, Script
from lockfast.engines.redis.topology import Topology
from lockfast.engines.redis.transport import Address, Transport, failure
from lockfast.guarantees import Finding, Guarantees
from lockfast.port import Entry, Page
from lockfast.runtime.base import Clock

T = TypeVar("T")
SHOWN = 1000  # claims of one lock that `inspect` shows
SCANNED = 500  # keys per page of `inspect`


class Inspection(Routes):
    """The part of the engine that inspects locks and servers, and keeps records of breaks."""

    def __init__(
        self, transport: Transport, topology: Topology, clock: Clock, weak: Sequence[Finding]
    ) -> None:
        """Keep `weak`, the findings about unprotected connections, for `guarantees`."""
        super().__init__(transport, topology, clock)
        self._weak = weak

    async def inspect(self, names: str, cursor: str | None, *, exact: bool) -> Page:
        """Return the claims on one name, or one page of those on names with a prefix."""
        deadline = self._now() + 5.0
        if exact:
            packet = messages.inspect(names, SHOWN)
            read = partial(replies.entries, names)
            return Page(await self._look(names, INSPECT, packet, read, deadline), None)
        return await self._page(names, cursor, deadline)

    async def _look(
        self,
        name: str,
        script: Script,
        packet: bytes,
        read: Callable[[Any], T],
        deadline: float,
    ) -> T:
        """Run a script that is about one name, and return what `read` makes of its reply."""
        bucket = keys(name).bucket
        address = self._topology.find(bucket) or await self._where(bucket, deadline)
        reply = await self._transport.call(address, packet, deadline)
        if type(reply) is hiredis.ReplyError:
            address, reply = await self._insist(
                reply, script, address, name, lambda _: packet, deadline
            )
        try:
            return read(reply)
        except replies.Malformed as error:
            raise self._malformed(error, address) from error

    async def record(self, name: str, claim: str, record: bytes, deadline: float) -> None:  # noqa: ARG002  # the port's
        """Keep the record of a break, in one round trip."""
        packet = messages.record(keys(name).records, record)
        await self._look(name, RECORD, packet, replies.records, deadline)

    async def records(self, name: str, deadline: float) -> list[bytes]:
        """Return the records of breaks of a name, the newest first."""
        packet = messages.record(keys(name).records)
        return await self._look(name, RECORD, packet, replies.records, deadline)

    async def _page(self, prefix: str, cursor: str | None, deadline: float) -> Page:
        """Return one page of claims, and find the names of the next page in the same round trip.

        The cursor is the server's number, where to continue its scan, and the names that the scan
        has found for this page, or null at the start of a server.
        """
        nodes = await self._nodes(deadline, again=cursor is None)
        number, position, names = json.loads(cursor or '[0, "0", null]')
        if number < 0:
            raise ValueError("a cursor with a negative number")
        if number >= len(nodes):  # the cluster has fewer servers than when the cursor was made
            return Page([], None)
        try:
            page, following = await self._scan(nodes[number], prefix, position, names, deadline)
        except replies.Malformed as error:
            raise self._malformed(error, nodes[number]) from error
        following = [number + 1, "0", None] if following is None else [number, *following]
        return page._replace(cursor=json.dumps(following) if following[0] < len(nodes) else None)

    async def _scan(
        self,
        address: Address,
        prefix: str,
        position: str,
        names: list[str] | None,
        deadline: float,
    ) -> tuple[Page, list[Any] | None]:
        """Return the claims on these names of one server, and where to continue with which names.
        The second is None at the end of the server.
        """

        def scan() -> bytes:
            pattern = f"{PREFIX}{{*}}={_literal(prefix)}*"
            return command("SCAN", position, "MATCH", pattern, "COUNT", SCANNED)

        if names is None:
            reply = await self._transport.call(address, scan(), deadline)
            position, names = _scanned(reply, prefix, address)
        shown, calls = names, [messages.inspect(name, SHOWN) for name in names]
        calls += [scan()] if position != "0" else []
        answers = await self._scripts(INSPECT, address, calls, deadline, heart=False)
        following: list[Any] | None = None
        if position != "0":
            following = list(_scanned(answers.pop(), prefix, address))
        entries: list[Entry] = []
        others: set[int] = set()
        for name, reply in zip(shown, answers, strict=True):
            # An error may be of a slot that just moved, or of a lock in another format.
            if not isinstance(reply, hiredis.ReplyError):
                entries += replies.entries(name, reply)
            elif (other := replies.format_in(reply)) is not None:
                others.add(other)
        return Page(entries, None, frozenset(others)), following

    async def guarantees(self, deadline: float) -> Guarantees:
        """Return the guarantees, from the INFO of every server that has buckets."""
        nodes = []
        for address in await self._nodes(deadline, again=True):
            reply = await self._transport.call(address, command("INFO"), deadline)
            if isinstance(reply, hiredis.ReplyError):
                raise failure(reply, address)
            if type(reply) is not bytes:
                raise self._malformed(replies.Malformed("not what INFO says"), address)
            nodes.append(read(reply))
        found = guarantees(nodes, self._topology.kind)
        return replace(found, findings=(*found.findings, *self._weak))


def _scanned(reply: Any, prefix: str, address: Address) -> tuple[str, list[str]]:
    """Return where SCAN continues, and the names that it has found."""
    if isinstance(reply, hiredis.ReplyError):
        raise failure(reply, address)
    with replies.reading():
        # The pattern also matches a `}=` inside a name, so the prefix is checked again. A key that
        # is not UTF-8 belongs to another program, and must not hide all the locks.
        every = [key.decode(errors="replace").partition("}=")[2] for key in reply[1]]
        return reply[0].decode(), [name for name in every if name.startswith(prefix)]


def _literal(text: str) -> str:
    """Escape the characters that SCAN's pattern would take for wildcards."""
    return re.sub(r"([\\*?\[\]^-])", r"\\\1", text)
