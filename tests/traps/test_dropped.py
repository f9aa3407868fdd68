"""`lock.acquire()` whose lease nobody keeps, as it is written. The contract has more: `dropped`."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import textwrap

import pytest

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
