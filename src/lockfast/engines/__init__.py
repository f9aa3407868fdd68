"""Finds the engine of a URL: one of ours, or one that another package brings.

An engine is imported only when its scheme is asked for. A package that brings one registers a
`Factory` under its scheme in the entry-point group `lockfast.engines`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.metadata import entry_points
from typing import Protocol

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
}
"""The module of each scheme, up to a plus sign. The extra of its driver has the module's name."""


class Factory(Protocol):
    """Makes engines: a class, or a function with the attribute `port`."""

    @property
    def port(self) -> int:
        """The number of the port that its engines implement: `lockfast.port.PORT` when written."""
        ...

    def __call__(self, target: Target | None, runtime: Threads | Aio, /) -> Engine:
        """Make an engine, which connects on its first use. Called again after a fork.

        `target`: the URL, if there is one. Its `take` names options that are not known.
        `runtime`: `Threads` for blocking callers, `Aio` for asyncio; it has the clock.
        """
        ...


def choose(
    url: str | None, factory: Factory | None, runtime: Threads | Aio
) -> tuple[Callable[[], Engine], Target | None]:
    """Return what makes the engine of a client, and the URL that it was read from."""
    target = None if factory is not None and url is None else parse(url)
    if factory is not None:
        return partial(_checked(factory, "engine="), target, runtime), target
    assert target is not None  # noqa: S101  # see above
    return opener(target, runtime), target


def system(target: Target) -> str:
    """Return the name of a URL's engine for telemetry: the first of its schemes."""
    scheme = target.scheme.partition("+")[0]
    module = ENGINES.get(scheme)
    return next((each for each, name in ENGINES.items() if name == module), scheme)


def opener(target: Target, runtime: Threads | Aio) -> Callable[[], Engine]:
    """Return what makes the engine of a URL. The engine connects on its first use."""
    scheme = target.scheme.partition("+")[0]
    name = ENGINES.get(scheme)
    if name is None:
        return partial(_installed(target.scheme, scheme), target, runtime)
    try:
        module = import_module(f"lockfast.engines.{name}")
    except ImportError as error:
        raise ImportError(
            f"the engine of {target.scheme}:// needs {error.name}: pip install 'lockfast[{name}]'"
        ) from error
    found: Callable[[], Engine] = module.opener(target, runtime)
    return found


def _installed(whole: str, scheme: str) -> Factory:
    """Load the factory that an installed package registers for a scheme."""
    for entry in entry_points(group=GROUP, name=scheme):
        try:
            return _checked(entry.load(), f"the engine of {scheme}://, {entry.value},")
        except (AttributeError, TypeError) as error:  # a mistake of the package's
            raise ImportError(f"the engine of {scheme}:// cannot be used: {error}") from error
    known = ", ".join(f"{each}://" for each in ENGINES)
    raise ValueError(
        f"no engine for {whole}://, and no installed package registers one in the group {GROUP}. "
        f"There are {known}, redis+sentinel:// and redis+cluster://"
    )


def _checked(factory: Factory, what: str) -> Factory:
    given: object = factory  # whatever a caller has passed, or a package registers
    number = getattr(given, "port", None)
    if not callable(given) or not isinstance(number, int):
        raise TypeError(f"{what} needs a callable with the attribute port, a number: {factory!r}")
    if number != PORT:
        raise ValueError(
            f"{what} is written for number {number} of lockfast's port, and this lockfast has "
            f"number {PORT}: install versions that go together"
        )
    return factory
