"""Derives the guarantees of a set of nodes from their INFO and their marks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lockfast.core.ballot import quorum
from lockfast.engines.redis.guarantees import read
from lockfast.engines.redis.keys import command
from lockfast.engines.redlock import messages
from lockfast.engines.redlock.attempt import problem
from lockfast.engines.redlock.transport import Answer, Transport
from lockfast.errors import EngineError, EngineUnavailable
from lockfast.guarantees import Finding, Guarantees, Level

ADVISED = 3
PROMISE = {
    Level.FENCED: (
        "any minority of nodes may be down, paused, wiped or have a wrong clock; a pause of the "
        "holder, or a clock that jumps ahead on a node of its majority, can let two processes hold "
        "a lock at once, but tokens stay unique and in order, so a guarded resource is safe"
    ),
    Level.EFFICIENCY: (
        "too few nodes are independent, so the loss of one can let two processes hold a lock at "
        "once, with the same token"
    ),
}


async def probe(transport: Transport, deadline: float) -> Guarantees:
    """Ask every node for its INFO and its marks, and return the guarantees of the set."""
    told: dict[int, Mapping[str, str]] = {}
    members: set[int] = set()
    errors: list[EngineError] = []

    def hear(node: int, answer: Answer) -> float:
        address = transport.nodes[node]
        replies: list[Any] = answer if type(answer) is list else [answer, None]
        info, marks = replies
        if isinstance(info, bytes):
            told[node] = read(info)
            if isinstance(marks, list) and None not in marks:
                members.add(node)
        else:
            errors.append(problem(info, address))
        return float(len(told) + len(errors) < len(transport.nodes))

    request = command("INFO") + messages.ALL_MARKS
    await transport.scatter([request] * len(transport.nodes), 2, deadline, hear)
    if len(told) < quorum(len(transport.nodes)):
        raise errors[0] if errors else EngineUnavailable("too few nodes answered", sent=False)
    return judged(
        [told.get(node) for node in range(len(transport.nodes))], members, transport.nodes
    )


def judged(
    nodes: Sequence[Mapping[str, str] | None], members: set[int], names: Sequence[object]
) -> Guarantees:
    """Return the guarantees of a set, given its nodes' INFO fields: None for one that is down."""
    known = [node for node in nodes if node is not None]
    runs = [node.get("run_id", "") for node in known]
    evicting = [node for node in known if node.get("maxmemory", "0") != "0" and _evicts(node)]
    # A server that is named twice votes twice, and one that evicts may forget its vote.
    sound = len(nodes) - (len(runs) - len(set(runs))) - len(evicting)
    weak = len(nodes) < ADVISED or sound < quorum(len(nodes)) or len(set(runs)) < len(runs)
    level = Level.EFFICIENCY if weak else Level.FENCED
    first = known[0]
    product = "Valkey" if "valkey_version" in first else "Redis"
    version = first.get("valkey_version") or first.get("redis_version", "of unknown version")
    findings = [*_of_the_set(len(nodes), runs)]
    # Fewer cannot let the others join: the set is new, or a majority has lost its data.
    joining = len(members) + nodes.count(None) >= quorum(len(nodes))
    if not joining:
        findings.append(_without_a_majority(len(members), len(nodes)))
    for number, node in enumerate(nodes):
        joins = joining and number not in members
        findings += _of_a_node(str(names[number]), node, joins=joins)
    return Guarantees(
        f"Redlock on {len(nodes)} nodes, {product} {version}",
        level,
        PROMISE[level],
        tuple(dict.fromkeys(findings)),
    )


def _evicts(node: Mapping[str, str]) -> bool:
    return node.get("maxmemory_policy") != "noeviction"


def _of_the_set(size: int, runs: Sequence[str]) -> list[Finding]:
    findings = []
    if size < ADVISED:
        findings.append(
            Finding(f"nodes = {size}", "the loss of one node stops every lock", "use 3, 5 or 7")
        )
    elif size % 2 == 0:
        findings.append(
            Finding(
                f"nodes = {size}",
                f"the set survives the loss of no more nodes than {size - 1} would",
                f"remove one, or add one: {size - 1} or {size + 1}",
            )
        )
    if len(set(runs)) < len(runs):
        findings.append(
            Finding(
                "two addresses of one server",
                "it votes twice, so its loss is the loss of two nodes",
                "name each server once in the URL",
            )
        )
    return findings


def _without_a_majority(members: int, size: int) -> Finding:
    return Finding(
        f"{members} of {size} nodes are members",
        "no lock can be acquired, and no node joins by itself",
        "if the set is new, run `lockfast --url URL install` once. If the nodes have lost their "
        "data, read the page on Redlock first",
    )


def _of_a_node(name: str, node: Mapping[str, str] | None, *, joins: bool) -> list[Finding]:
    if node is None:
        return [
            Finding(f"{name} is down", "the set survives the loss of one node less", "start it")
        ]
    findings = []
    if joins:
        findings.append(
            Finding(
                f"{name} is not a member",
                "it has lost its data, and rejects every request",
                "wait: it joins by itself after the longest ttl, while clients use the set",
            )
        )
    if _evicts(node):
        findings.append(
            Finding(
                f"maxmemory-policy = {node.get('maxmemory_policy', 'unknown')}",
                "when memory is full, a node may delete a lock that is held, or its mark",
                "CONFIG SET maxmemory-policy noeviction",
            )
        )
    if node.get("role") != "master" or node.get("connected_slaves", "0") != "0":
        findings.append(
            Finding(
                f"{name} has a replica, or is one",
                "a replica that is promoted lacks the last votes, and must join again",
                "run each node without replicas: the other nodes replace it",
            )
        )
    return findings
