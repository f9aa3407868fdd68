"""Ask every node about several claims in one request, and bring the scripts where they lack."""

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
    """Ask, and have each reply counted; give the nodes that failed."""
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
    """Bring the scripts to every node: one of them is new, or was told to forget them."""
    heard: list[int] = []

    def hear(node: int, answer: Answer) -> float:
        del answer
        heard.append(node)
        return float(len(heard) < len(transport.nodes))

    await transport.scatter([messages.LOAD] * len(transport.nodes), messages.LOADED, end, hear)
