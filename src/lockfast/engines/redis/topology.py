"""Which server to ask: one, the primary that sentinels name, or the owner of a cluster's slot."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

import hiredis

from lockfast.engines.redis.keys import BUCKETS, command, slot
from lockfast.engines.redis.wire import Address
from lockfast.errors import EngineError, EngineUnavailable

Call = Callable[[Address, bytes], Awaitable[Any]]


class Topology(Protocol):
    """Where buckets live. `find` knows; `refresh` learns, after a connection has failed."""

    kind: str
    """What to call it."""

    together: bool
    """Whether claims on different names may share one call."""

    def find(self, bucket: int) -> Address | None:
        """Give the server of a bucket, if it is known."""
        ...

    async def refresh(self, call: Call) -> None:
        """Learn the present state from whoever answers."""

    def doubt(self) -> None:
        """Take in that what is known has failed."""

    def moved(self, bucket: int, error: str) -> Address | None:
        """Read a MOVED or ASK error: where to go."""
        ...


class Standalone:
    """One server."""

    kind = "standalone"
    together = True

    def __init__(self, address: Address) -> None:
        """Take the address, which never changes."""
        self._address = address

    def find(self, bucket: int) -> Address | None:  # noqa: ARG002  # one server has them all
        """Give the server."""
        return self._address

    async def refresh(self, call: Call) -> None:
        """Nothing can change."""

    def doubt(self) -> None:
        """Nothing can change."""

    def moved(self, bucket: int, error: str) -> Address | None:  # noqa: ARG002  # see `find`
        """Nothing moves."""
        return None


class Sentinels:
    """The primary of a name that sentinels watch."""

    kind = "behind Sentinel"
    together = True

    def __init__(self, sentinels: Sequence[Address], name: str) -> None:
        """Not known yet."""
        self._sentinels = list(sentinels)
        self._name = name
        self._primary: Address | None = None

    def find(self, bucket: int) -> Address | None:  # noqa: ARG002  # one primary has them all
        """Give the primary, if it is known."""
        return self._primary

    async def refresh(self, call: Call) -> None:
        """Ask the sentinels in turn; the one that answered is asked first next time."""
        why: object = None
        for sentinel in list(self._sentinels):
            packet = command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._name)
            try:
                reply = await call(sentinel, packet)
            except EngineError as error:
                why = error
                continue
            if isinstance(reply, list):
                self._sentinels.remove(sentinel)
                self._sentinels.insert(0, sentinel)
                self._primary = Address(reply[0].decode(), int(reply[1]))
                return
            why = reply
        raise EngineUnavailable(
            f"no sentinel knows a primary named {self._name!r}: {why}", sent=False
        )

    def doubt(self) -> None:
        """Ask again before the next call."""
        self._primary = None

    def moved(self, bucket: int, error: str) -> Address | None:  # noqa: ARG002  # see `find`
        """Nothing moves."""
        return None


class Cluster:
    """The owner of each bucket's slot."""

    kind = "Cluster"
    together = False

    def __init__(self, seeds: Sequence[Address]) -> None:
        """Nothing known but where to ask."""
        self._seeds = list(seeds)
        self._owners: dict[int, Address] = {}

    def find(self, bucket: int) -> Address | None:
        """Give the owner of the bucket's slot, if it is known."""
        return self._owners.get(bucket)

    async def refresh(self, call: Call) -> None:
        """Read the slot map from any node that answers."""
        why: object = None
        for node in [*self._seeds, *dict.fromkeys(self._owners.values())]:
            try:
                reply = await call(node, command("CLUSTER", "SLOTS"))
            except EngineError as error:
                why = error
                continue
            if isinstance(reply, hiredis.ReplyError) or not reply:
                why = reply or "no slots are assigned"
                continue
            ranges = [(first, last, owner) for first, last, owner, *_ in reply]
            for bucket in range(BUCKETS):
                for first, last, owner in ranges:
                    if first <= slot(bucket) <= last:
                        host = owner[0].decode() or node.host
                        self._owners[bucket] = Address(host, owner[1])
            return
        raise EngineUnavailable(f"no node of the cluster answers: {why}", sent=False)

    def doubt(self) -> None:
        """Read the map again before the next call."""
        self._seeds += [n for n in dict.fromkeys(self._owners.values()) if n not in self._seeds]
        self._owners = {}

    def moved(self, bucket: int, error: str) -> Address | None:
        """Follow: for good after MOVED, once after ASK."""
        kind, _, rest = error.partition(" ")
        if kind not in ("MOVED", "ASK"):
            return None
        host, _, port = rest.rpartition(" ")[2].rpartition(":")
        there = Address(host, int(port))
        if kind == "MOVED":
            self._owners[bucket] = there
        return there
