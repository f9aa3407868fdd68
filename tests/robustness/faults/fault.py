"""A fault: what one kind does to a site or to its clients, and how it is undone."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import ClassVar

from tests.robustness.hosts import host_of
from tests.robustness.sites import Site
from tests.servers.process import Server, ServerError
from tests.servers.proxy import Proxy


@dataclass(frozen=True)
class Stage:
    """What faults act on: the site, and the clients, each a process on a host of its own."""

    site: Site
    workers: Sequence[Server]
    ttl: float


@dataclass(frozen=True)
class Order:
    """One fault to be: for how long, and what is left to chance, which is its own and seeded."""

    seconds: float
    turn: int = 0
    """How many of its kind went before: what must not be left to chance goes by turns."""
    rng: Random = field(default_factory=Random)


@dataclass(frozen=True)
class Damage:
    """What was done, in words, and its undoing."""

    said: str
    undo: Callable[[], None]


class Fault(ABC):
    """One kind of fault. It keeps nothing: one object serves every site."""

    kind: ClassVar[str]
    breaks: ClassVar[frozenset[str]] = frozenset()
    """What a client's belief cannot be held to while it lasts: "pause", "clock", "data"."""

    @abstractmethod
    def begin(self, stage: Stage, order: Order) -> Damage:
        """Do it. A ServerError or a ProcessLookupError says that it could not be done just now."""


def chosen(rng: Random, servers: Sequence[Server]) -> Server:
    """Pick one of those that run."""
    running = [server for server in servers if server.alive]
    if not running:
        raise ServerError("none of them runs")
    return rng.choice(running)


def busy(rng: Random, proxies: Sequence[Proxy]) -> Proxy:
    """Pick one of the proxies that somebody uses: clients of an ensemble may all be at one."""
    used = [proxy for proxy in proxies if proxy.open_connections]
    if not used:
        raise ServerError("nobody is connected")
    return rng.choice(used)


def told(server: Server) -> str:
    """Name a server, or a client, in words."""
    return f"{server.name} at {host_of(server).address}"
