"""Two programs that must exclude each other: the second waits while the first works."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import lockfast
from tests.migration.worker import LONG, Worker
from tests.servers import wait_until


def queued(url: str) -> Callable[[], bool]:
    """Return a function that tells whether one holds lockfast's lock and another one waits."""

    def seen() -> bool:
        with lockfast.connect(url) as client:
            return len(client.lock("invoices").queue()) == 2

    return seen


def check_waits(
    first: str,
    second: str,
    waits: Callable[[], bool],
    folder: Path,
    env: Mapping[str, str] | None = None,
) -> None:
    """Run the first program, and the second while the first works.

    `waits` sees at the server that the second one waits: so it has asked, and was not only slow.
    """
    with Worker(first, folder, env) as one:
        one.wait_works()
        with Worker(second, folder, env) as two:
            wait_until(waits, "the second program waits", LONG)
            assert not two.works()
            one.finish()
            two.wait_works()
            two.finish()
