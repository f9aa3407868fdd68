"""The stand-in of an engine whose server alone knows which claims live: one for the same URL."""

from __future__ import annotations

from collections.abc import Callable

from lockfast.port import Engine
from lockfast.runtime.aio import Aio
from lockfast.runtime.threads import Threads
from lockfast.url import Target

Opener = Callable[[Target, Threads | Aio], Callable[[], Engine]]


def stand_in(opener: Opener, target: Target, runtime: Aio) -> Callable[[], Engine]:
    """Return a function that makes a blocking engine for the URL of an asyncio engine."""

    def make() -> Engine:
        return opener(target, Threads(runtime.now))()

    return make
