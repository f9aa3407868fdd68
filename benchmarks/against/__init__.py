"""What lockfast is measured against: one module per engine, found by its name.

A new file here is all that a new engine needs: `postgres.py` with `AGAINST` in it is measured by
`python -m benchmarks pair --engine postgres`, by `make bench` and by the tests.
"""

from __future__ import annotations

import asyncio
import pkgutil
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Generic, Protocol, TypeVar

from benchmarks.rounds import Work
from benchmarks.workers import Main
from tests.servers import Cluster


class Server(Protocol):
    """One server, or a set of them, that has started."""

    @property
    def url(self) -> str:
        """What a user passes to `lockfast.connect`."""
        ...


S = TypeVar("S", bound=Server)


def _itself(server: Any) -> list[int]:  # noqa: ANN401  # a `tests.servers.Server`
    return [server.pid]


@dataclass(frozen=True, slots=True)
class Against(Generic[S]):
    """An engine's own side of the benchmarks."""

    start: Callable[[], AbstractContextManager[S]]
    """Start a server, ready for a client: with its schema, if it needs one."""
    pairs: Callable[[S], AbstractContextManager[dict[str, Work]]]
    """Give every other way to acquire and release a free lock, by name, and the floor with them."""
    locks: dict[str, Main] = field(default_factory=dict)
    """Peers whose lock two processes take in turns, by `benchmarks.duel`. The first is compared."""
    floor: str = "bare"
    """The name among `pairs` of as many calls of the same driver, with nothing around them."""
    tasks: Callable[[S, asyncio.Runner, int], AbstractContextManager[dict[str, Work]]] | None = None
    """Peers for so many tasks, each with a lock of its own. None: compare with `pairs`."""
    unit: tuple[str, Main] | None = None
    """A message from process to process, its name and its `main`: the unit of the handoff."""
    polling: dict[str, Main] = field(default_factory=dict)
    """A peer that polls every millisecond, for `benchmarks.fight`. None: lockfast itself polls."""
    leases: int = 10_000
    """So many are held by `hold`."""
    members: Callable[[S], Sequence[int]] = _itself
    """The processes of all members, for their CPU time. Their children are counted with them."""
    slow: Callable[[], AbstractContextManager[S]] | None = None
    """Start a server whose commits take milliseconds, as on a disk. None: there is no such setting,
    and `start` does."""
    cluster: Callable[[], Cluster] | None = None
    """Start servers that spread names among them. None: the engine does not."""


ENGINES = sorted(module.name for module in pkgutil.iter_modules(__path__))


def against(engine: str) -> Against[Any]:
    """Load an engine's side: only then are its drivers and its peers imported."""
    found: Against[Any] = import_module(f"{__name__}.{engine}").AGAINST
    return found
