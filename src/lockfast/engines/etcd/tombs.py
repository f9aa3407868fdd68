"""Tombstones in etcd, for clients that may be asked about at another engine.

An engine refuses the copies that it sends itself: it moves the gates of its sessions. It cannot do
that for another engine, in whose buffers a copy may be. So a resignation in doubt of a client of
the service leaves a key, which every claim compares in its transaction.

How long it must stay. A copy may lie in the buffer of a replica that is paused. If the sessions of
that replica still live when it goes on, it puts the claim. A lease for holders lives for a ttl
after its last keepalive, and one for waiters for no longer. So the tombstone stays for a ttl,
besides the time for which copies are sent. A replica may be paused for longer, and loses its
sessions. etcd has no clock that could tell how old the copy is, so the service must then drop its
connections, with what they have received.

The lease of a tombstone is not that of a session, which may end with its engine. It is kept alive
by nobody, and never revoked.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from lockfast.engines.etcd import keys
from lockfast.engines.etcd.messages import GRANT, delete, inner, put, txn
from lockfast.engines.etcd.protobuf import Malformed, number, numbers
from lockfast.engines.etcd.transport import Transport
from lockfast.port import LONGEST_WAIT, TOMB_MARGIN, Ask


class TombLeases:
    """The leases on which an engine puts tombstones."""

    def __init__(self, transport: Transport) -> None:
        """Start without a lease."""
        self._transport = transport
        self._by_life: dict[int, tuple[float, int]] = {}
        """By the seconds that a tombstone stays: until when to use the lease, and the lease."""

    async def lease(self, asks: Iterable[Ask], deadline: float) -> int:
        """Return a lease on which the tombstones of these claims stay long enough. It lives for
        twice that time, so that one request for a lease serves many tombstones.
        """
        ttl = max(ask.shape.ttl for ask in asks)
        stay = 1 << (math.ceil(ttl + LONGEST_WAIT + TOMB_MARGIN) - 1).bit_length()
        now = self._transport.now()
        until, lease = self._by_life.get(stay, (0.0, 0))
        if now < until:
            return lease
        said = numbers(await self._transport.call(GRANT, number(1, 2 * stay), deadline))
        lease, granted = said.get(2, 0), said.get(3, 0)
        if lease == 0 or granted < 2 * stay:
            raise Malformed(f"a lease {lease} of {granted} s, for {2 * stay} s")
        self._by_life[stay] = (now + stay, lease)
        return lease

    def forget(self) -> None:
        """Forget all leases, because one of them is gone."""
        self._by_life.clear()


def bury(id_: str, key: bytes, lease: int) -> bytes:
    """Return the operation that leaves a tombstone and deletes the claim."""
    return inner(txn(b"", [put(keys.TOMBS + id_.encode(), b"", lease), delete(key)], []))
