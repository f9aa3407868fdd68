"""Makes independent Redis nodes a set.

An operator does this once, since lockfast cannot tell a new node from one that has lost its data.
"""

from __future__ import annotations

import time
from typing import Any

from lockfast.core.ballot import quorum
from lockfast.engines.redis.keys import command
from lockfast.engines.redlock import messages
from lockfast.engines.redlock.attempt import problem
from lockfast.engines.redlock.transport import Answer, Transport
from lockfast.errors import EngineError, EngineRefused, EngineUnavailable

PATIENCE = 10.0


async def make_members(transport: Transport, deadline: float, *, lost: bool) -> None:
    """Make every node a member. If a majority already is, do nothing: the rest join by themselves.

    Raise `EngineRefused` if some nodes are members but no majority is, unless `lost` is given.
    """
    answers, error = await _ask(transport, messages.ALL_MARKS + command("TIME"), 2, deadline)
    marks = [[messages.mark(raw) for raw in replies[0]] for replies in answers]
    members = sum(None not in each for each in marks)
    if members >= quorum(len(transport.nodes)) and not lost:
        return  # whether the other nodes answer or not: a deployment must not need all of them
    if error is not None:
        raise error
    if members and not lost:
        raise EngineRefused(
            f"{members} of {len(transport.nodes)} nodes are members, and the others have lost "
            "their data. Clients may still hold leases that were granted before. Wait for the "
            "longest ttl in use, or stop those clients. Then call install(url, lost=True)."
        )
    known = [mark[0] for each in marks for mark in each if mark is not None]
    clocks = [int(at) * 1_000_000 + int(micros) for _, (at, micros) in answers]
    # Start at the clocks' time at least. New tokens are then higher even if all data was lost.
    highest = max([*known, *clocks, time.time_ns() // 1000])
    _, error = await _ask(transport, messages.install(highest), 1, deadline)
    if error is not None:
        raise error


async def _ask(
    transport: Transport, request: bytes, count: int, deadline: float
) -> tuple[list[list[Any]], EngineError | None]:
    """Send every node a request. Return the answers, and an error if not every node gave one."""
    answers: dict[int, list[Any]] = {}
    errors: list[EngineError] = []

    def hear(node: int, answer: Answer) -> float:
        if type(answer) is list and not any(isinstance(each, Exception) for each in answer):
            answers[node] = answer
        else:
            bad = (
                next((e for e in answer if isinstance(e, Exception)), None)
                if (type(answer) is list)
                else answer
            )
            errors.append(problem(bad, transport.nodes[node]))
        return float(len(answers) + len(errors) < len(transport.nodes)) * PATIENCE

    await transport.scatter([request] * len(transport.nodes), count, deadline, hear)
    error = errors[0] if errors else None
    if error is None and len(answers) < len(transport.nodes):
        silent = [str(a) for i, a in enumerate(transport.nodes) if i not in answers]
        error = EngineUnavailable(f"no answer from {', '.join(silent)}: all must be up", sent=True)
    return list(answers.values()), error
