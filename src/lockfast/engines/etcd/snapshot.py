"""Reads queues, many in one transaction."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple

from lockfast.engines.etcd.claim_transaction import Form
from lockfast.engines.etcd.keys import Row
from lockfast.engines.etcd.messages import Done, Slice, find, found, rows, txn

AT_ONCE = 100  # operations in one transaction: etcd allows 128
NEAR = Slice(local=True)


class Seen(NamedTuple):
    """Queues, as they were read."""

    queues: dict[bytes, list[Row]]
    """By the prefix of their keys."""
    revision: int
    """The revision at which they were read: the lowest, if there were several transactions."""
    term: int
    """The raft term of the first reply; 0 if no majority confirmed the read."""


async def read_queues(
    ask: Callable[[bytes, float], Awaitable[Done]],
    forms: Iterable[Form],
    deadline: float,
    *,
    local: bool = False,
) -> Seen:
    """Read the queues of some claims. `local`: the asked member answers alone, perhaps with old
    data.
    """
    by_prefix = {form.prefix: form for form in forms}
    prefixes = list(by_prefix)
    read: dict[bytes, list[Row]] = {}
    revision = term = 0
    for start in range(0, len(prefixes), AT_ONCE):
        chunk = [by_prefix[prefix] for prefix in prefixes[start : start + AT_ONCE]]
        ranges = [find(form.prefix, form.end, NEAR) if local else form.queue for form in chunk]
        reply = await ask(txn(b"", ranges, []), deadline)
        revision = min(revision or reply.revision, reply.revision)
        term = term or reply.term
        for form, said in zip(chunk, reply.of(len(chunk)), strict=True):
            read[form.prefix] = rows(found(said))
    return Seen(read, revision, 0 if local else term)
