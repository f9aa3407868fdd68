"""Reads queues, many in one transaction, or compares them with what is known of them.

Most locks have a holder and no waiter. To renew such a claim, it is enough to know that it is still
there, and still alone. That is one condition of a transaction, so etcd returns nothing for it. If
any of the conditions does not hold, all queues of the transaction are read: a claim was broken, or
somebody waits. Nothing is remembered between two renewals except that the claim was alone, so a
restored backup, or a key that was deleted by hand, is found as well.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple

from lockfast.engines.etcd.claim_transaction import Form
from lockfast.engines.etcd.keys import BASE, Row
from lockfast.engines.etcd.messages import Done, Slice, find, found, rows, txn
from lockfast.engines.etcd.own_claim import OwnClaim

AT_ONCE = 100  # operations or conditions in one transaction: etcd allows 128
NEAR = Slice(local=True)
Ask = Callable[[bytes, float], Awaitable[Done]]
"""Sends a transaction that only reads, before a deadline."""


class Seen(NamedTuple):
    """Queues, as they were read."""

    queues: dict[bytes, list[Row]]
    """By the prefix of their keys. Claims that are known to be alone in theirs have none here."""
    revision: int
    """The revision at which they were read: the lowest, if there were several transactions."""
    term: int
    """The raft term of the first reply; 0 if no majority confirmed the read."""


async def read_queues(
    ask: Ask,
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


async def compare_queues(ask: Ask, mines: Sequence[OwnClaim], deadline: float) -> Seen:
    """Read the queues of claims. Those that were alone in theirs are only compared, and are not in
    the result if nothing has changed.
    """
    queues: dict[bytes, list[Row]] = {}
    revision = term = 0
    for start in range(0, len(mines), AT_ONCE):
        chunk = mines[start : start + AT_ONCE]
        alone = [mine for mine in chunk if mine.alone]
        others = {mine.form.prefix: mine.form for mine in chunk if not mine.alone}
        # etcd answers a transaction without operations from the memory of one member. A read that
        # is not local makes it ask a majority, and only then does its raft term prove a keepalive.
        reads = [form.queue for form in others.values()] or [find(BASE)]
        reply = await ask(txn(b"".join([mine.unchanged() for mine in alone]), reads, []), deadline)
        revision = min(revision or reply.revision, reply.revision)
        term = term or reply.term
        if reply.succeeded:
            said = zip(others, reply.of(len(reads)), strict=False)
            queues |= {prefix: rows(found(each)) for prefix, each in said}
        else:
            more = await read_queues(ask, [mine.form for mine in chunk], deadline)
            queues |= more.queues
            revision = min(revision, more.revision)
    return Seen(queues, revision, term)
