"""What one server, one process and one engine can do: assumptions, not measurements."""

from __future__ import annotations

from dataclasses import dataclass

from lockfast.engines.redis.keys import BUCKETS

HEADROOM = 0.7
"""The share of a core, of memory, of file descriptors and of a network that a plan uses. Above it,
queues grow at each burst."""

MAXCLIENTS = "maxclients {:,}, the default"
MAX_CONNECTIONS = "max_connections {:,}, many for this engine"


@dataclass(frozen=True, slots=True)
class Machine:
    """One server of the fleet's operator."""

    cores: int = 8
    memory: float = 32 * 2**30
    network: float = 125e6
    """Bytes per second: 1 Gbit/s."""
    files: int = 20_000
    """File descriptors of one process."""


@dataclass(frozen=True, slots=True)
class Rule:
    """How an engine grows."""

    node: str
    """What more of them are called."""
    cores: int | None = None
    """Cores that one of its servers can use. None: all of the machine."""
    buckets: int = 0
    """Parts in which the engine itself spreads names over nodes. Each takes a script of its own. 0:
    it does not. More nodes are engines of their own then, and the operator splits the names."""
    connections: int | None = None
    """Connections that one of its servers accepts. None: only files limit them."""
    setting: str = "{:,} files of a server's process"
    """What limits them."""
    part: int = 256
    """Claims that one script, or statement, carries."""


RULES = {
    # `maxclients` is 10,000 by default; a script has 64 claims: engines/redis/routes.py.
    "redis": Rule(
        "masters of a Cluster",
        cores=1,
        buckets=BUCKETS,
        connections=10_000,
        setting=MAXCLIENTS,
        part=64,
    ),
    "redlock": Rule("sets of five servers", cores=1, connections=10_000, setting=MAXCLIENTS),
    # 100 and 151 by default. Each is a process, or a thread, and a few hundred are usual.
    "postgres": Rule("primaries", connections=500, setting=MAX_CONNECTIONS),
    "mysql": Rule("primaries", connections=500, setting=MAX_CONNECTIONS),
    "etcd": Rule("clusters"),
    "zookeeper": Rule("ensembles"),
    # One writer at a time, and all processes on the host of the file.
    "sqlite": Rule("files", cores=1),
}


def rule_of(engine: str) -> Rule:
    """Return how an engine grows."""
    return RULES[engine]
