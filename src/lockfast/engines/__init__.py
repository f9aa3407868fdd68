"""Lookup of the engine for a URL: one of lockfast's own, or one that another package registers.

lockfast imports an engine's module only when a URL has its scheme. Another package registers a
`Factory` under its scheme in the entry-point group `lockfast.engines`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from difflib import get_close_matches
from functools import partial
from importlib import import_module
from importlib.metadata import entry_points
from typing import Protocol

from lockfast.engines.batching import Batching
from lockfast.port import PORT, Engine
from lockfast.runtime.aio import Aio
from lockfast.runtime.threads import Threads
from lockfast.url import Target, parse

GROUP = "lockfast.engines"
ENGINES = {
    "memory": "memory",
    "redis": "redis",
    "rediss": "redis",
    "valkey": "redis",
    "valkeys": "redis",
    "redlock": "redlock",
    "redlocks": "redlock",
    "postgresql": "postgres",
    "postgres": "postgres",
    "zookeeper": "zookeeper",
    "etcd": "etcd",
    "etcds": "etcd",
    "sqlite": "sqlite",
    "mysql": "mysql",
    "mariadb": "mysql",
    "lockfast": "remote",
    "lockfasts": "remote",
}
"""The module for each scheme. The part of a scheme after a plus sign (`redis+sentinel`) does not
count. The pip extra that installs an engine's driver has the module's name."""


class Factory(Protocol):
    """A callable that makes engines: a class, or a function with the attribute `port`."""

    @property
    def port(self) -> int:
        """The value of `lockfast.port.PORT` for which its engines were written."""
        ...

    def __call__(self, target: Target | None, runtime: Threads | Aio, /) -> Engine:
        """Make an engine, which connects on its first use. lockfast calls this again after a fork.

        Args:
            target: The parsed URL, or None without a URL. It has `hosts`, pairs of a host and a
                port, `path`, `username` and `secret()`, which returns a function that returns the
                password. `target.take(...)` returns the options, and raises `ValueError` for those
                that the engine does not know.
            runtime: `Threads` for blocking callers, `Aio` for asyncio. `runtime.now` is the clock.

        Returns:
            The engine.
        """
        ...


def choose(
    url: str | None, factory: Factory | None, runtime: Threads | Aio
) -> tuple[Callable[[], Engine], Target | None]:
    """Return a function that makes a client's engine, and the parsed URL (None without a URL)."""
    target = None if factory is not None and url is None else parse(url)
    if factory is not None:
        make: Callable[[], Engine] = partial(_checked(factory, "engine="), target, runtime)
    else:
        assert target is not None  # noqa: S101  # without a factory, it was parsed above
        make = opener(target, runtime)
    return lambda: _batched(make(), runtime), target


def _batched(engine: Engine, runtime: Threads | Aio) -> Engine:
    """Return an engine that batches requests, if the engine wants that."""
    size = getattr(engine, "batch", 1)
    return Batching(engine, runtime, size) if size > 1 else engine


def system(target: Target) -> str:
    """Return the engine's name for telemetry: the first scheme in `ENGINES` with its module."""
    scheme = target.scheme.partition("+")[0]
    module = ENGINES.get(scheme)
    return next((each for each, name in ENGINES.items() if name == module), scheme)


def opener(target: Target, runtime: Threads | Aio) -> Callable[[], Engine]:
    """Return a function that makes the engine for a URL. The engine connects on its first use."""
    scheme = target.scheme.partition("+")[0]
    name = ENGINES.get(scheme)
    if name is None:
        return partial(_installed(target.scheme, scheme), target, runtime)
    try:
        module = import_module(f"lockfast.engines.{name}")
    except ImportError as error:
        raise missing(error, target.scheme, name) from error
    found: Callable[[], Engine] = module.opener(target, runtime)
    return found


def missing(error: ImportError, scheme: str, extra: str) -> ImportError:
    """Return the error for an engine whose driver is not installed."""
    if error.name in sys.stdlib_module_names:  # distributions ship some of them separately
        return ImportError(
            f"the engine of {scheme}:// needs {error.name}, a module of Python itself, "
            "which this Python was built without",
            name=error.name,
        )
    return ImportError(
        f"the engine of {scheme}:// needs {error.name}: pip install 'lockfast[{extra}]'",
        name=error.name,
    )


def _installed(whole: str, scheme: str) -> Factory:
    """Load the factory that an installed package registers for a scheme."""
    for entry in entry_points(group=GROUP, name=scheme):
        try:
            return _checked(entry.load(), f"the engine of {scheme}://, {entry.value},")
        except (AttributeError, TypeError) as error:  # the package is at fault
            raise ImportError(f"the engine of {scheme}:// cannot be used: {error}") from error
    meant = get_close_matches(scheme, ENGINES, 1)
    if meant:  # a slip of the keyboard
        raise ValueError(f"no engine for {whole}://. Did you mean {meant[0]}://?")
    known = ", ".join(f"{each}://" for each in ENGINES)
    raise ValueError(
        f"no engine for {whole}://, and no installed package registers one in the group {GROUP}. "
        f"lockfast has {known}, redis+sentinel:// and redis+cluster://"
    )


def _checked(factory: Factory, what: str) -> Factory:
    given: object = factory  # a caller or a package may have passed anything
    number = getattr(given, "port", None)
    if not callable(given) or not isinstance(number, int):
        raise TypeError(f"{what} needs a callable with the attribute port, a number: {factory!r}")
    if number != PORT:
        raise ValueError(
            f"{what} is written for number {number} of lockfast's port, and this lockfast has "
            f"number {PORT}: install versions that fit together"
        )
    return factory
