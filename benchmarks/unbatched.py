"""Opens clients that send every request by itself, to see what batching gives and costs."""

from __future__ import annotations

from lockfast.engines import opener
from lockfast.port import PORT, Engine
from lockfast.runtime.aio import Aio
from lockfast.runtime.threads import Threads
from lockfast.url import Target


class Unbatched:
    """Makes engines that ask for no batches, for `connect(url, engine=...)`."""

    port = PORT

    def __call__(self, target: Target | None, runtime: Threads | Aio, /) -> Engine:
        """Make the engine of that URL."""
        assert target is not None  # a benchmark has a URL
        engine = opener(target, runtime)()
        if hasattr(engine, "batch"):
            engine.batch = 1
        return engine
