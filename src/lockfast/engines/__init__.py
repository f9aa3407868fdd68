"""The engines, each behind the port. They are imported only when their scheme is asked for."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from lockfast.port import Engine
from lockfast.runtime.aio import Aio
from lockfast.runtime.threads import Threads
from lockfast.url import Target

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


def system(target: Target) -> str:
    """Name the engine of a URL as the world does: the first of its schemes."""
    module = ENGINES[target.scheme.partition("+")[0]]
    return next(scheme for scheme, name in ENGINES.items() if name == module)


def opener(target: Target, runtime: Threads | Aio) -> Callable[[], Engine]:
    """Find the engine of a URL; its connections are made later, on first use."""
    name = ENGINES.get(target.scheme.partition("+")[0])
    if name is None:
        known = ", ".join(f"{scheme}://" for scheme in ENGINES)
        raise ValueError(
            f"no engine for {target.scheme}://. There are {known}, redis+sentinel:// and "
            "redis+cluster://"
        )
    try:
        module = import_module(f"lockfast.engines.{name}")
    except ImportError as error:
        raise ImportError(
            f"the engine of {target.scheme}:// needs {error.name}: pip install 'lockfast[{name}]'"
        ) from error
    found: Callable[[], Engine] = module.opener(target, runtime)
    return found
