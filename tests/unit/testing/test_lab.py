"""The laboratory for users' tests: time passes when the test says so, and faults are its own."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import lockfast
from lockfast.testing.lab import AsyncLab, Lab

HOUR = 3600.0


def test_leases_are_renewed_while_time_passes(lockfast_lab: Lab) -> None:
    began = time.monotonic()
    with lockfast_lab.client.lock("x", ttl=30) as lease:
        lockfast_lab.clock.advance(HOUR)
        lease.ensure_held()
        assert lockfast_lab.connect().lock("x").try_acquire() is None
    assert time.monotonic() - began < 30


def test_a_client_that_is_paused_loses_its_lease_and_the_next_has_a_higher_token(
    lockfast_lab: Lab,
) -> None:
    client, other = lockfast_lab.client, lockfast_lab.connect()
    lease = client.lock("x", ttl=30).acquire()
    with lockfast_lab.pause(client):
        lockfast_lab.clock.advance(31)
        following = other.lock("x", ttl=30).acquire(timeout=1)
    assert following.token > lease.token
    assert (lease.state, lease.loss) == (lockfast.State.LOST, lockfast.Loss.EXPIRED)
    with pytest.raises(lockfast.LeaseLost):
        lease.release()
    lockfast_lab.clock.advance(60)
    following.release()


def test_a_lease_that_is_taken_away_is_lost_at_once_and_its_callbacks_have_run(
    lockfast_lab: Lab,
) -> None:
    told: list[str] = []
    lease = lockfast_lab.client.lock("x").acquire()
    lease.on_lost(lambda: told.append("lost"))
    lockfast_lab.lose(lease)
    assert (lease.state, lease.loss, told) == (
        lockfast.State.LOST,
        lockfast.Loss.GONE,
        ["lost"],
    )
    both = lockfast_lab.client.lock_all("a", "b").acquire()
    lockfast_lab.lose(both)
    assert [each.state for each in both.leases.values()] == [lockfast.State.LOST] * 2
    with pytest.raises(lockfast.LeaseLost):
        both.release()


def test_a_wait_ends_when_its_time_has_passed_on_the_clock(lockfast_lab: Lab) -> None:
    errors: list[lockfast.NotAcquired] = []
    lease = lockfast_lab.client.lock("x", ttl=30).acquire()

    def wait() -> None:
        try:
            lockfast_lab.connect().lock("x").acquire(timeout=600)
        except lockfast.NotAcquired as error:
            errors.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    while len(lockfast_lab.client.lock("x").queue()) < 2:
        time.sleep(0.001)
    lockfast_lab.clock.advance(601)
    thread.join(10)
    assert errors[0].waited >= 600
    lease.release()


def test_a_lock_that_stays_taken_is_free_when_its_time_has_passed(lockfast_lab: Lab) -> None:
    with lockfast_lab.client.lock("x", ttl=300, at_least=240):
        pass
    lockfast_lab.clock.advance(230)
    assert lockfast_lab.connect().lock("x").try_acquire() is None
    lockfast_lab.clock.advance(11)
    lockfast_lab.connect().lock("x", timeout=1).acquire().release()


def test_only_forward_and_only_its_own_clients(lockfast_lab: Lab) -> None:
    with pytest.raises(ValueError, match="forward"):
        lockfast_lab.clock.advance(-1)
    with (
        lockfast.connect("memory://") as stranger,
        pytest.raises(TypeError, match="of this lab can be paused"),
        lockfast_lab.pause(stranger),
    ):
        pass


def test_the_same_for_tasks() -> None:
    async def main() -> None:
        async with AsyncLab() as lab:
            other = lab.connect()
            async with lab.client.lock("x", ttl=30) as lease:
                await lab.clock.advance(HOUR)
                lease.ensure_held()
            with pytest.raises(lockfast.LeaseLost):
                await _be_robbed(lab)
            lease = await lab.client.lock("x", ttl=30).acquire()
            with lab.pause(lab.client):
                await lab.clock.advance(31)
                async with other.lock("x", ttl=30, timeout=1) as following:
                    assert following.token > lease.token
            assert lease.state is lockfast.State.LOST
            waiting = asyncio.create_task(_wait(lab, other))
            await lab.clock.advance(0.1)
            with pytest.raises(lockfast.NotAcquired):
                await waiting

    asyncio.run(main())


async def _wait(lab: AsyncLab, other: lockfast.aio.AsyncClient) -> None:
    async with other.lock("y", ttl=30):
        job = asyncio.create_task(_take(lab))
        while len(await other.lock("y").queue()) < 2:  # noqa: ASYNC110  # an engine's, not ours
            await asyncio.sleep(0)
        await lab.clock.advance(61)
        await job


async def _be_robbed(lab: AsyncLab) -> None:
    async with lab.client.lock("x", ttl=30) as lease:
        await lab.lose(lease)
        await asyncio.sleep(5)


async def _take(lab: AsyncLab) -> None:
    await lab.client.lock("y").acquire(timeout=60)


def test_pytest_finds_the_fixture_by_itself_and_loads_nothing_heavy_for_it(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(
        "import sys\n"
        "def test_mine(lockfast_lab):\n"
        "    with lockfast_lab.client.lock('x') as lease:\n"
        "        lockfast_lab.clock.advance(60)\n"
        "        lease.ensure_held()\n"
        "    assert 'hypothesis' not in sys.modules\n"
        "    assert 'hiredis' not in sys.modules\n"
        "    assert 'lockfast.testing.contract.suite' not in sys.modules\n",
        "utf-8",
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:hypothesispytest", str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
