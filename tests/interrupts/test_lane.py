"""Code of lockfast that a signal handler runs in the middle of a lane, where requests wait.

Every request waits in a lane here, as if calls were under way all the time, and goes out at once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import lockfast
from lockfast.engines import batching, lane, lane_call, lane_entry, memory
from lockfast.port import PORT
from lockfast.runtime.aio import Aio
from lockfast.runtime.threads import Threads
from lockfast.url import Target
from tests.interrupts.bytecodes import interrupted, settled
from tests.servers import wait_until

LANE = {str(module.__file__) for module in (batching, lane, lane_call, lane_entry)}
SIZE = 8
STRANGER = 0.05  # seconds after which a request that nobody takes along goes out by itself
pytestmark = pytest.mark.timeout(240)


class Batched:
    """Makes memory engines that want batches."""

    port = PORT

    def __init__(self) -> None:
        self._memory = memory.Memory()

    def __call__(self, _: Target | None, runtime: Threads | Aio, /) -> memory.MemoryEngine:
        engine = memory.MemoryEngine(self._memory, runtime.bell())
        engine.batch = SIZE  # type: ignore[attr-defined]  # optional in the port
        return engine


@pytest.fixture
def free() -> Iterator[lockfast.Client]:
    """A client whose requests find their lanes free."""
    with lockfast.connect(engine=Batched()) as made:
        made.lock("warm").acquire().release()
        yield made


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[lockfast.Client]:
    """A client whose requests find their lanes full, and are due at once."""
    monkeypatch.setattr(batching, "AT_ONCE", 0)
    monkeypatch.setattr(lane, "AGE", 0.0)
    with lockfast.connect(engine=Batched()) as made:
        made.lock("warm").acquire().release()
        yield made


def empty(client: lockfast.Client) -> bool:
    """Tell whether no request and no call was left in any lane."""
    engine = client._session.engine
    assert isinstance(engine, batching.Batching)
    lanes: list[lane.Lane[Any]] = [engine._claims, *engine._resignations.values()]
    return not any(each._pending or each._calls or each._leading for each in lanes)


def block(client: lockfast.Client) -> None:
    with client.lock("a", ttl=5.0) as lease:
        lease.ensure_held()


def many(client: lockfast.Client) -> None:
    with client.lock_all("b", "c"):
        pass


def at_every_bytecode(
    client: lockfast.Client, work: Callable[[lockfast.Client], None], deed: Callable[[], object]
) -> int:
    number = 0
    while interrupted(LANE, number := number + 1, lambda: work(client), deed):
        assert empty(client), f"after an interruption before bytecode {number}"
    wait_until(lambda: settled(client), "an empty table", 5.0)
    return number


@pytest.mark.parametrize("work", [block, many])
def test_a_handler_may_take_a_lock_at_every_bytecode_of_a_free_lane(
    free: lockfast.Client, work: Callable[[lockfast.Client], None]
) -> None:
    def handler() -> None:
        with free.lock("handler", ttl=5.0, timeout=5.0) as lease:
            lease.ensure_held()

    assert at_every_bytecode(free, work, handler) > 100


@pytest.mark.parametrize("work", [block, many])
def test_a_handler_may_take_a_lock_at_every_bytecode_of_a_full_lane(
    client: lockfast.Client, work: Callable[[lockfast.Client], None]
) -> None:
    """The handler may lead the call that the interrupted request waits for."""

    def handler() -> None:
        with client.lock("handler", ttl=5.0, timeout=5.0) as lease:
            lease.ensure_held()

    assert at_every_bytecode(client, work, handler) > 500


def test_a_handler_may_wait_for_a_lock_at_every_bytecode_of_a_lane(
    client: lockfast.Client,
) -> None:
    timers: list[threading.Timer] = []

    def handler() -> None:
        other = client.lock("wanted", ttl=5.0, timeout=1.0).acquire()
        timer = threading.Timer(0.002, other.release)
        timer.start()
        timers.append(timer)
        with client.lock("wanted", ttl=5.0, timeout=4.0):
            pass
        timer.join()

    assert at_every_bytecode(client, block, handler) > 500


def test_a_handler_may_wait_for_a_release_that_its_own_thread_was_about_to_send(
    client: lockfast.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The release of a stranger is in the call that the handler has interrupted. It cannot be
    answered before the handler returns, and the handler waits for it.
    """
    engine = client._session.engine
    assert isinstance(engine, batching.Batching)
    waiting = engine._resignations[False]._pending
    taken = 0

    def round_of(number: int) -> bool:
        nonlocal taken
        mine = client.lock("mine", ttl=30.0, timeout=1.0).acquire()
        wanted = client.lock("wanted", ttl=30.0, timeout=1.0).acquire()
        monkeypatch.setattr(lane, "AGE", STRANGER)
        stranger = threading.Thread(target=wanted.release)
        stranger.start()
        wait_until(lambda: bool(waiting), "a release in the lane", 1.0)
        monkeypatch.setattr(lane, "AGE", 0.0)

        def handler() -> None:
            nonlocal taken
            taken += not waiting
            client.lock("wanted", ttl=30.0, timeout=3.0).acquire().release()

        began = time.monotonic()
        struck = interrupted(LANE, number, mine.release, handler)
        assert time.monotonic() - began < 2.0, f"before bytecode {number}"
        stranger.join(5.0)
        assert not stranger.is_alive()
        assert wanted.state is mine.state is lockfast.State.RELEASED
        return struck

    number = 0
    while round_of(number := number + 1):
        assert empty(client), f"after an interruption before bytecode {number}"
    assert taken > 50
    wait_until(lambda: settled(client), "an empty table", 5.0)


# Ctrl-C between the making and the starting of a coroutine: Python says so, and nothing is lost.
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
def test_ctrl_c_at_every_bytecode_of_a_lane_leaves_nothing_behind(
    client: lockfast.Client,
) -> None:
    """Neither a request that nobody sends, nor a call that keeps others waiting."""

    def interrupt() -> None:
        raise KeyboardInterrupt

    number, struck = 0, True
    while struck:
        number += 1
        try:
            struck = interrupted(LANE, number, lambda: block(client), interrupt, raises=True)
        except KeyboardInterrupt:
            began = time.monotonic()
            with client.lock("a", ttl=5.0, timeout=4.0):
                assert time.monotonic() - began < 2.0
    assert number > 500
    wait_until(lambda: settled(client), "an empty table", 5.0)
