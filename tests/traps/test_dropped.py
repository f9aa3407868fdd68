"""`lock.acquire()` whose lease nobody keeps: the idiom of threading and redis-py."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import textwrap

import pytest

import lockfast
from lockfast import aio


def run(code: str) -> subprocess.CompletedProcess[str]:
    """Run a program with Python's own settings, as a user does."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False
    )


def test_a_lease_that_nobody_keeps_warns_at_once_and_at_its_line() -> None:
    ran = run("""
        import lockfast
        client = lockfast.connect("memory://")
        lock = client.lock("invoice:42", ttl=30)
        lock.acquire()
        print("goes on")
    """)
    assert ran.stdout == "goes on\n"
    assert "<string>:5: RuntimeWarning: a lease on 'invoice:42' was dropped" in ran.stderr
    assert "Keep what acquire() returns" in ran.stderr


def test_the_warning_is_logged_every_time(caplog: pytest.LogCaptureFixture) -> None:
    with lockfast.connect("memory://") as client, caplog.at_level(logging.WARNING, "lockfast"):
        for name in "ab":
            with pytest.warns(RuntimeWarning, match=f"'{name}' was dropped without release"):
                client.lock(name).acquire()
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]


def test_a_lock_has_no_release_and_says_what_has() -> None:
    with (
        lockfast.connect("memory://") as client,
        pytest.raises(TypeError, match=r"'x' has no release.*lease = lock.acquire\(\)"),
    ):
        client.lock("x").release()


def test_an_asyncio_lease_that_nobody_keeps_warns_too() -> None:
    async def main() -> None:
        async with aio.connect("memory://") as client:
            await client.lock("x").acquire()

    with pytest.warns(RuntimeWarning, match="'x' was dropped without release"):
        asyncio.run(main())


@pytest.mark.filterwarnings("error")
def test_nothing_is_said_of_a_lease_that_was_released_lost_or_kept_by_its_block() -> None:
    with lockfast.connect("memory://") as client:
        client.lock("released").acquire().release()
        with client.lock("block"):
            pass
        with client.lock_all("a", "b"), client.rlock("r"), client.rlock("r"):
            pass
        lost = client.lock("lost").acquire()
        lost.fenced()
        del lost
        closed = client.lock("closed").acquire()
    del closed


def test_an_asyncio_lease_that_is_released_where_it_was_acquired_does_not_warn(
    recwarn: pytest.WarningsRecorder, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with aio.connect("memory://") as client:
            await (await client.lock("x").acquire()).release()
            await (await client.lock_all("x", "y").acquire()).release()
            await (await client.rlock("x").acquire()).release()
            assert not await (await client.lock("z").acquire()).wait_lost(0.05)

    with caplog.at_level(logging.WARNING, "lockfast"):
        asyncio.run(main())
    said = [str(each.message) for each in recwarn if "dropped" in str(each.message)]
    assert [name for name in ("'x'", "'y'") if any(name in each for each in said)] == []
    assert len(said) <= 1  # 'z', once it has waited
