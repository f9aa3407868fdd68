"""An engine in a package of its own: it keeps its claims in this process."""

from __future__ import annotations

from lockfast.engines.memory import Memory, MemoryEngine
from lockfast.runtime.aio import Aio
from lockfast.runtime.threads import Threads
from lockfast.url import Target

_memories: dict[str, Memory] = {}


class ExampleEngine(MemoryEngine):
    """Opened by `connect("example://NAME")`, or by `connect(engine=ExampleEngine)`."""

    port = 3

    def __init__(self, target: Target | None, runtime: Threads | Aio) -> None:
        """Share the claims of a name between all clients of this process."""
        name = target.hosts[0][0] if target is not None and target.hosts else ""
        super().__init__(_memories.setdefault(name, Memory()), runtime.bell())


class LaterEngine(ExampleEngine):
    """Written for a port that does not exist yet."""

    port = 1000
