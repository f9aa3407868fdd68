"""The heart: a part of the engine that does not answer costs no lease on another part."""

from __future__ import annotations

import time
from collections.abc import Sequence

import lockfast
from lockfast.errors import EngineUnavailable
from lockfast.port import Ask, Standing

SILENT, SHORT = 6.0, 1.2  # seconds of ttl, of leases on a part that is silent, and on another


def test_renewals_that_nobody_answers_cost_no_lease_of_a_shorter_ttl() -> None:
    """A batch had as much time as its own ttl allowed, and a crowd had it for each chunk."""
    with lockfast.connect("memory://") as client:
        silent = [client.lock(f"silent{n}", ttl=SILENT).acquire(timeout=5) for n in range(200)]
        engine = client._session.engine
        renew, asked = engine.renew, []

        async def partly(asks: Sequence[Ask], deadline: float) -> list[Standing | Exception | None]:
            if asks[0].shape.ttl == SILENT:
                asked.append(len(asks))
                time.sleep(max(deadline - client._session.runtime.now(), 0.0))  # noqa: ASYNC251  # a thread drives it
                raise EngineUnavailable("no answer in time", sent=True)
            return await renew(asks, deadline)

        engine.renew = partly  # type: ignore[method-assign]
        lease = client.lock("short", ttl=SHORT).acquire(timeout=5)
        end = time.monotonic() + 0.9 * SILENT
        while time.monotonic() < end:
            lease.ensure_held()
            time.sleep(0.02)
        assert asked
        assert len(silent) == 200
        engine.renew = renew  # type: ignore[method-assign]
