"""Sends requests for several claims to every node, and loads the scripts on nodes without them."""

from __future__ import annotations

from collections.abc import Sequence

from lockfast.engines.redlock import messages
from lockfast.engines.redlock.attempt import Tally, demoted, lacks
from lockfast.engines.redlock.transport import Answer, Transport


async def ask_all(
    transport: Transport,
    tallies: Sequence[Tally],
    parts: Sequence[bytes],
    end: float,
    *,
    heart: bool = False,
) -> set[int]:
    """Send all parts to every node, count each reply in its tally, and return the failed nodes."""
    nodes, failed, lacking = transport.nodes, set[int](), set[int]()
    first = tallies[0]

    def hear(node: int, answer: Answer) -> float:
        if type(answer) is list and type(answer[0]) is not int and any(map(demoted, answer)):
            transport.forget(nodes[node])
        if type(answer) is not list:
            failed.add(node)
            for tally in tallies:
                tally.hear(node, answer, nodes[node])
        elif type(answer[0]) is not int and any(map(lacks, answer)) and node not in lacking:
            lacking.add(node)
            return 1e9
        elif len(parts) == 1:  # a hot path
            first.hear(node, answer[0], nodes[node])
            return first.patience
        else:
            for tally, reply in zip(tallies, answer, strict=True):
                tally.hear(node, reply, nodes[node])
        return max(tally.patience for tally in tallies)

    packet = parts[0] if len(parts) == 1 else b"".join(parts)
    requests: list[bytes | None] = [packet] * len(nodes)
    await transport.scatter(requests, len(parts), end, hear, heart=heart)
    if lacking:
        await load(transport, end)
        requests = [packet if node in lacking else None for node in range(len(nodes))]
        await transport.scatter(requests, len(parts), end, hear, heart=heart)
    return failed


async def load(transport: Transport, end: float) -> None:
    """Load the scripts on every node, because one of them is new, or its scripts were flushed."""
    heard: list[int] = []

    def hear(node: int, answer: Answer) -> float:
        del answer
        heard.append(node)
        return float(len(heard) < len(transport.nodes))

    await transport.scatter([messages.LOAD] * len(transport.nodes), messages.LOADED, end, hear)
