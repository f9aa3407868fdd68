"""Derives the guarantees of Redis servers from their replies to INFO."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lockfast.guarantees import Finding, Guarantees, Level

PROMISE = {
    Level.FENCED: (
        "a restart without its data or a failover may forget a grant, so two processes can hold a "
        "lock at once; tokens stay unique and in order through both while the servers' clocks agree"
    ),
    Level.EFFICIENCY: (
        "Redis may evict a lock that is held, without any fault, so two processes can hold it at "
        "once at any time"
    ),
}


def read(info: bytes) -> dict[str, str]:
    """Return the fields of a reply to INFO."""
    lines = (line.partition(":") for line in info.decode("utf-8", "replace").splitlines())
    return {name: value.strip() for name, mark, value in lines if mark}


def guarantees(nodes: Sequence[Mapping[str, str]], kind: str) -> Guarantees:
    """Return the guarantees of servers, given their INFO fields. The weakest server decides."""
    first = nodes[0]
    product = "Valkey" if "valkey_version" in first else "Redis"
    version = first.get("valkey_version") or first.get("redis_version", "of unknown version")
    found = dict.fromkeys(finding for node in nodes for finding in _findings(node))
    evicts = any(_evicts(node) and node.get("maxmemory", "0") != "0" for node in nodes)
    level = Level.EFFICIENCY if evicts else Level.FENCED
    return Guarantees(f"{product} {version}, {kind}", level, PROMISE[level], tuple(found))


def _evicts(node: Mapping[str, str]) -> bool:
    return node.get("maxmemory_policy") != "noeviction"


def _findings(node: Mapping[str, str]) -> list[Finding]:
    findings = []
    if _evicts(node):
        findings.append(
            Finding(
                f"maxmemory-policy = {node.get('maxmemory_policy', 'unknown')}",
                "when memory is full, Redis may delete a lock that is held",
                "CONFIG SET maxmemory-policy noeviction",
            )
        )
    if node.get("aof_enabled") != "1":
        findings.append(
            Finding(
                "appendonly = no",
                "a restart forgets the grants made since the last snapshot, or all of them",
                "CONFIG SET appendonly yes; CONFIG SET appendfsync always",
            )
        )
    return findings
