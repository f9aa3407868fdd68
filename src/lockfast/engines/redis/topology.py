"""Topologies: find a bucket's server, alone, behind Sentinel or in a Cluster."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

import hiredis

from lockfast.engines.redis.keys import BUCKETS, command, slot
from lockfast.engines.redis.replies import Malformed, number, octets
from lockfast.engines.redis.transport import Address
from lockfast.errors import EngineError, EngineUnavailable

HIGHEST = 65_535
PORT = re.compile("[0-9]{1,5}")
Call = Callable[[Address, bytes], Awaitable[Any]]


class Topology(Protocol):
    """Finds the server of a bucket. `find` returns a known one, and `refresh` asks for them."""

    kind: str
    """What users see as the name of the topology."""

    together: bool
    """Whether claims on different names may share one call."""

    def find(self, bucket: int) -> Address | None:
        """Return the server of a bucket, if it is known."""
        ...

    async def refresh(self, call: Call) -> None:
        """Learn the present state from the first server that answers."""

    def doubt(self) -> None:
        """Note that a known server has failed, so that the next request refreshes first."""

    def moved(self, bucket: int, error: str, asked: Address) -> Address | None:
        """Return the server that a MOVED or ASK error names, or None for another error."""
        ...


class Standalone:
    """One server."""

    kind = "standalone"
    together = True

    def __init__(self, address: Address) -> None:
        """Keep the address, which never changes."""
        self._address = address

    def find(self, bucket: int) -> Address | None:  # noqa: ARG002  # one server has them all
        """Return the server."""
        return self._address

    async def refresh(self, call: Call) -> None:
        """Do nothing, since the address never changes."""

    def doubt(self) -> None:
        """Do nothing, since the address never changes."""

    def moved(self, bucket: int, error: str, asked: Address) -> Address | None:  # noqa: ARG002  # see `find`
        """Return None, since buckets do not move."""
        return None


class Sentinels:
    """The primary with a given name that sentinels watch."""

    kind = "behind Sentinel"
    together = True

    def __init__(self, sentinels: Sequence[Address], name: str) -> None:
        """Start with the sentinels, and without a known primary."""
        self._sentinels = list(sentinels)
        self._name = name
        self._primary: Address | None = None

    def find(self, bucket: int) -> Address | None:  # noqa: ARG002  # one primary has them all
        """Return the primary, if it is known."""
        return self._primary

    async def refresh(self, call: Call) -> None:
        """Ask the sentinels in turn. The one that answers is asked first next time."""
        why: object = None
        for sentinel in list(self._sentinels):
            packet = command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._name)
            try:
                reply = await call(sentinel, packet)
            except EngineError as error:
                why = error.message
                continue
            try:
                host, port = reply
                primary = Address(octets(host).decode(), number(port, 1, HIGHEST))
            except (Malformed, TypeError, ValueError):  # not a host and a port
                unknown = f"{sentinel} has no such name. Check the name in the URL"
                why = unknown if reply is None else reply
                continue
            # Make a new list each time, because several threads may run this at once.
            self._sentinels = [sentinel, *(s for s in self._sentinels if s != sentinel)]
            self._primary = primary
            return
        raise EngineUnavailable(
            f"no sentinel knows a primary named {self._name!r}: {why}", sent=False
        )

    def doubt(self) -> None:
        """Forget the primary, so that the next request asks the sentinels first."""
        self._primary = None

    def moved(self, bucket: int, error: str, asked: Address) -> Address | None:  # noqa: ARG002  # see `find`
        """Return None, since buckets do not move."""
        return None


class Cluster:
    """The owner of each bucket's slot."""

    kind = "Cluster"
    together = False

    def __init__(self, seeds: Sequence[Address]) -> None:
        """Start with the nodes to ask first, and without a slot map."""
        self._seeds = list(seeds)
        self._owners: dict[int, Address] = {}

    def find(self, bucket: int) -> Address | None:
        """Return the owner of the bucket's slot, if it is known."""
        return self._owners.get(bucket)

    async def refresh(self, call: Call) -> None:
        """Read the slot map from any node that answers. Ask those that did not last next time."""
        why: object = None
        for node in dict.fromkeys([*self._seeds, *self._owners.values()]):
            try:
                reply = await call(node, command("CLUSTER", "SLOTS"))
            except EngineError as error:
                why = error.message
                # Make a new list each time, because several threads may run this at once.
                self._seeds = [*(seed for seed in self._seeds if seed != node), node]
                continue
            if isinstance(reply, hiredis.ReplyError) or not reply:
                why = reply or "no slots are assigned"
                if "cluster support disabled" in str(why):
                    why = f"{node} is not in a cluster. Write redis:// for one server"
                continue
            try:
                ranges = [(first, last, owner) for first, last, owner, *_ in reply]
                self._owners = {
                    bucket: Address(_host(owner[0], node), int(owner[1]))
                    for bucket in range(BUCKETS)
                    for first, last, owner in ranges
                    if first <= slot(bucket) <= last
                }
            except (TypeError, ValueError, LookupError, AttributeError):
                why = f"{node} does not answer with slots"
                continue
            return
        raise EngineUnavailable(f"no node of the cluster answers: {why}", sent=False)

    def doubt(self) -> None:
        """Forget the slot map, so that the next request reads it first. Keep its nodes to ask."""
        self._seeds = list(dict.fromkeys([*self._seeds, *self._owners.values()]))
        self._owners = {}

    def moved(self, bucket: int, error: str, asked: Address) -> Address | None:
        """Return the node that an error names, for all calls after MOVED and for one after ASK."""
        kind, _, rest = error.partition(" ")
        if kind not in ("MOVED", "ASK"):
            return None
        host, _, port = rest.rpartition(" ")[2].rpartition(":")
        if not PORT.fullmatch(port):
            return None
        there = Address(_host(host.encode(), asked), int(port))
        if kind == "MOVED":
            self._owners[bucket] = there
        return there


def _host(told: bytes | None, asked: Address) -> str:
    """Return the host that a node names, or the host that was asked if it names none.

    With `cluster-preferred-endpoint-type unknown-endpoint` it is null in CLUSTER SLOTS and empty in
    MOVED. Then only the port is new, on the host that was asked. "?" is a name that is not set.
    """
    return asked.host if told in (None, b"", b"?") else told.decode()
