"""Many at once, where a release is half done when the engine is lost."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import lockfast
from lockfast.client import Client
from lockfast.engines import opener
from lockfast.errors import EngineUnavailable
from lockfast.port import Ask
from lockfast.runtime.threads import Threads
from lockfast.session import Session
from lockfast.testing.faults import Shaky
from lockfast.url import parse


class Half(Shaky):
    """Resigns the first of several, and then cannot reach the next server: as in a cluster."""

    halves = 1

    async def resign(self, asks: Sequence[Ask], deadline: float, *, doubt: bool) -> list[bool]:
        if self.halves:
            self.halves -= 1
            await super().resign(asks[:1], deadline, doubt=doubt)
            raise EngineUnavailable("no connection to the next server", sent=False)
        return await super().resign(asks, deadline, doubt=doubt)


def test_a_release_that_was_half_done_is_finished_and_is_no_loss() -> None:
    runtime, way = Threads(), Half()
    target = parse("memory://half")
    with Client(Session(lambda: way.to(opener(target, runtime)()), runtime)) as client:
        leases = client.lock_all("a", "b", "c").acquire()
        leases.release()
        assert way.halves == 0
        assert leases.state is lockfast.State.RELEASED
        for name in ("a", "b", "c"):
            assert client.lock(name).queue() == []


@pytest.mark.parametrize("names", [(), ("a", "")])
def test_what_is_no_name_and_no_names_at_all_are_refused(names: tuple[str, ...]) -> None:
    with lockfast.connect("memory://") as client, pytest.raises(ValueError, match="name"):
        client.lock_all(*names)
