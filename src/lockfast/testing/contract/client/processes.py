"""The client's contract on processes that die or fork, for engines that processes can share."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from lockfast.testing.contract.client.times import SLACK
from lockfast.testing.harness.bench import UrlBench
from lockfast.testing.harness.programs import TTL
from lockfast.testing.harness.stage import Contract, Stage, driven
from lockfast.testing.harness.verbs import acquire, queue, release


@contextmanager
def program(stage: Stage, verb: str, mode: str | None = None) -> Iterator[subprocess.Popen[str]]:
    """Start a program, in the stage's mode by default. Kill it at the end of the block."""
    bench = stage.bench
    assert isinstance(bench, UrlBench), "a process finds its engine by URL"
    code = "import sys; from lockfast.testing.harness.programs import main; main(*sys.argv[1:])"
    argv = [sys.executable, "-c", code, verb, mode or stage.mode.name, bench.url]
    pipe = subprocess.PIPE
    process = subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True)  # noqa: S603  # our own
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def heard(process: subprocess.Popen[str], word: str) -> None:
    """Wait for the program's next line, and check that it is `word`."""
    assert process.stdout is not None
    assert process.stdout.readline().strip() == word


class ProcessContract(Contract):
    """Processes that are killed at different steps block others for a ttl at most."""

    async def until_claims(self, stage: Stage, count: int) -> None:
        """Wait until x has `count` claims."""
        lock = stage.client().lock("x")
        end = time.monotonic() + 20
        while len(await queue(lock)) != count:
            assert time.monotonic() < end, await queue(lock)
            await stage.mode.sleep(0.01)

    @driven
    async def test_a_holder_that_was_killed_blocks_for_its_ttl_and_no_longer(
        self, stage: Stage
    ) -> None:
        lock = stage.client().lock("x", ttl=30.0)
        with program(stage, "hold") as victim:
            heard(victim, "held")
            job = stage.mode.start(acquire(lock, TTL + 4 * SLACK))
            await self.until_claims(stage, 2)
            await stage.mode.sleep(1.5 * TTL)
            assert not job.done()  # the victim renews its lease
            victim.send_signal(signal.SIGKILL)
            began = time.monotonic()
            lease = await job.result()
            assert time.monotonic() - began < TTL + SLACK
            await release(lease)

    @driven
    async def test_a_waiter_that_was_killed_lets_the_next_one_pass(self, stage: Stage) -> None:
        lock = stage.client().lock("x", ttl=30.0)
        lease = await acquire(lock)
        with program(stage, "wait") as victim:
            heard(victim, "waiting")
            await self.until_claims(stage, 2)
            job = stage.mode.start(acquire(lock, TTL + 4 * SLACK))
            await self.until_claims(stage, 3)
            victim.send_signal(signal.SIGKILL)
            began = time.monotonic()
            await release(lease)
            lease = await job.result()
            assert time.monotonic() - began < TTL + SLACK
            await release(lease)

    @driven
    async def test_a_client_killed_before_it_saw_the_reply_blocks_for_a_ttl(
        self, stage: Stage
    ) -> None:
        with program(stage, "claim") as victim:
            assert victim.wait(20) == -signal.SIGKILL
            began = time.monotonic()
            lease = await acquire(stage.client().lock("x", ttl=30.0), TTL + SLACK)
            assert time.monotonic() - began < TTL + SLACK
            await release(lease)

    @driven
    async def test_a_fork_has_its_own_client_and_leaves_its_parents_leases_alone(
        self, stage: Stage
    ) -> None:
        with program(stage, "fork") as parent:
            heard(parent, "child-0")
            heard(parent, "kept")
            assert parent.wait(20) == 0
        await self.until_claims(stage, 0)
        assert await queue(stage.client().lock("z")) == []

    @driven
    async def test_a_program_that_forgot_to_release_does_so_when_it_ends(
        self, stage: Stage
    ) -> None:
        # Only a blocking program: an asyncio loop is closed at exit, and its client with it.
        with program(stage, "leave", "threads") as forgetful:
            heard(forgetful, "held")
            assert forgetful.wait(20) == 0
        began = time.monotonic()
        await release(await acquire(stage.client().lock("x", ttl=30.0), SLACK))
        assert time.monotonic() - began < SLACK
