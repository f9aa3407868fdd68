"""The engine of a client, for tests that look behind the port."""

from __future__ import annotations

from typing import Any


def raw(client: Any) -> Any:  # noqa: ANN401  # of threads or of asyncio, with whatever is inside
    """Return the engine itself, without what batches requests to it."""
    engine = client._session.engine
    return getattr(engine, "inner", engine)
