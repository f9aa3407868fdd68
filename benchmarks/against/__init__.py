"""What lockfast is measured against: one module per engine, found by its name.

A new file here is all that a new engine needs: `postgres.py` with `AGAINST` in it is measured by
`python -m benchmarks pair --engine postgres`, by `make bench` and by the tests.
"""

from __future__ import annotations

import asyncio
import pkgutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Generic, Protocol, TypeVar

from benchmarks.rounds import Work
from benchmarks.workers import Main


class Server(Protocol):
    """One server, or a set of them, that has started."""

    @property
    def url(self) -> str:
        """What a user passes to `lockfast.connect`."""
        ...


S = TypeVar("S", bound=Server)


@dataclass(frozen=True, slots=True)
class Against(Generic[S]):
    """An engine's own side of the benchmarks."""

    start: Callable[[], AbstractContextManager[S]]
    """Start a server, ready for a client: with its schema, if it needs one."""
    pairs: Callable[[S], AbstractContextManager[dict[str, Work]]]
    """Give every other way to acquire and release a free lock, by name, and the floor with them."""
    locks: dict[str, Main] = field(default_factory=dict)
    """Peers whose locks two processes fight for: see `benchmarks.fight`. The first is compared."""
    floor: str = "bare"
    """The name among `pairs` of as many calls of the same driver, with nothing around them."""
    tasks: Callable[[S, asyncio.Runner, int], AbstractContextManager[dict[str, Work]]] | None = None
    """Peers for so many tasks, each with a lock of its own. None: compare with `pairs`."""
    unit: tuple[str, Main] | None = None
    """A message from process to process, its name and its `main`: the unit of the handoff."""


ENGINES = sorted(module.name for module in pkgutil.iter_modules(__path__))


def against(engine: str) -> Against[Any]:
    """Load an engine's side: only then are its drivers and its peers imported."""
    found: Against[Any] = import_module(f"{__name__}.{engine}").AGAINST
    return found
