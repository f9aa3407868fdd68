"""Sends the deletions of claims, many in one transaction, and moves gates before that."""

from __future__ import annotations

from collections.abc import Sequence

from lockfast.engines.etcd.failures import another
from lockfast.engines.etcd.messages import TXN, done, txn
from lockfast.engines.etcd.session import Session
from lockfast.engines.etcd.snapshot import AT_ONCE
from lockfast.engines.etcd.transport import Transport
from lockfast.errors import EngineError, EngineUnavailable


async def send(
    transport: Transport, gates: Sequence[Session], deletions: Sequence[bytes], deadline: float
) -> list[bytes | Exception]:
    """Move the gates, then delete. Return the reply to each deletion, or the error that left its
    outcome unknown.

    The gates come first. If there are several transactions, a copy that arrives in between finds
    its gate moved, and a copy that arrived before is deleted. If one of them fails, none is sent
    after it. Raise if that was the first one.
    """
    operations = [*(gate.move() for gate in gates), *deletions]
    answers: list[bytes | Exception] = []
    for start in range(0, len(operations), AT_ONCE):
        some = operations[start : start + AT_ONCE]
        moved = gates[start : start + AT_ONCE]
        try:
            reply = done(await transport.call(TXN, txn(b"", some, []), deadline))
            replies = reply.of(len(some))
        except EngineError as error:
            if not start:
                raise
            answers += [another(error) for _ in some[len(moved) :]]
            unsent = EngineUnavailable("etcd: an earlier part of the release failed", sent=False)
            unsent.__cause__ = error
            return answers + [another(unsent) for _ in deletions[len(answers) :]]
        for gate, said in zip(moved, replies, strict=False):
            if done(said).succeeded:
                gate.gate = max(gate.gate, reply.revision)
        answers += replies[len(moved) :]
    return answers
