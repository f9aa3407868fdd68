"""Programs that a test starts as processes, and kills: each runs `main(verb, mode, url)`.

A program prints what it has done to standard output, line by line. Each is written once for both
modes. They lock the name "x".
"""

from __future__ import annotations

import atexit
import os
import select
import signal
import sys
import time
import traceback

from lockfast import aio
from lockfast.blocking.client import connect
from lockfast.core.validity import State
from lockfast.engines import opener
from lockfast.errors import Loss
from lockfast.primitives.candidacy import PARTING
from lockfast.testing.harness.bench import made
from lockfast.testing.harness.faults import Shaky
from lockfast.testing.harness.mode import MODES, Mode, Threaded
from lockfast.testing.harness.verbs import (
    AnyClient,
    AnyLease,
    acquire,
    campaign,
    close,
    release,
    stand,
    try_acquire,
)
from lockfast.url import parse

TTL = 1.0
FOR_EVER = 3600.0
KEPT: list[object] = []  # keeps the program alive until the process ends, as a global variable does


class Program:
    """One process with one client. Each verb is a method."""

    def __init__(self, mode: Mode, url: str) -> None:
        """Make the client, which connects on first use."""
        self.mode = mode
        self.url = url
        self.client: AnyClient = connect(url) if isinstance(mode, Threaded) else aio.connect(url)

    async def hold(self) -> None:
        """Acquire the lock, and hold it until the test kills this process."""
        lease = await acquire(self.client.lock("x", ttl=TTL))
        say("held")
        await self.mode.sleep(FOR_EVER)
        await release(lease)

    async def wait(self) -> None:
        """Wait for the lock until the test kills this process."""
        say("waiting")
        await acquire(self.client.lock("x", ttl=TTL))

    async def claim(self) -> None:
        """Kill this process right after the engine has got its claim, before it sees the reply."""
        way, target = Shaky(), parse(self.url)
        way.after_claim = kill_myself
        client = made(self.mode, lambda runtime: way.to(opener(target, runtime)()))
        await acquire(client.lock("x", ttl=TTL))

    async def leave(self) -> None:
        """Acquire the lock and end without releasing it, like a program that forgot to."""
        self.lease = await acquire(self.client.lock("x", ttl=FOR_EVER))
        say("held")

    async def fork(self) -> None:
        """Hold the lock, fork, and check that parent and child have leases of their own."""
        lease = await acquire(self.client.lock("x", ttl=TTL))
        child = os.fork()
        if not child:
            # The child cannot use its parent's event loop, so it runs in a loop of its own.
            code = 1
            try:
                type(self.mode)().run(self.in_child(lease))
                code = 0
            finally:
                end_child(code)
        status = await self.ended(child)
        say(f"child-{os.waitstatus_to_exitcode(status)}")
        await self.mode.sleep(2 * TTL)
        lease.ensure_held()
        say("kept")
        await release(lease)

    async def lead(self) -> None:
        """Lead, and print token, id and state for every line of input, also after a loss."""
        lease = await campaign(self.client.election("x", ttl=TTL), "the first")
        say("leads")
        while True:
            while not select.select([sys.stdin], [], [], 0)[0]:
                await self.mode.sleep(0.01)
            if not sys.stdin.readline():
                return
            say(f"{lease.token} {lease.id} {lease.state.value}")

    async def stand(self) -> None:
        """Run a candidacy, fork in its block, and let the child leave that block at once."""
        said: list[str] = []
        candidacy = self.client.election("x", ttl=TTL).run(
            lambda _lease: said.append("leads"), lambda: said.append("ends")
        )
        children: list[int] = []

        async def body() -> None:
            await self.mode.until(lambda: said, "it leads")
            children.append(os.fork())
            if children[0]:
                status = await self.ended(children[0])
                say(f"child-{os.waitstatus_to_exitcode(status)}")
                await self.mode.sleep(1.5 * TTL)
                say(" ".join(said))

        began = time.monotonic()
        await stand(candidacy, body)
        if not children[0]:
            # The child must not wait, nor end the candidacy, which is its parent's.
            end_child(0 if said == ["leads"] and time.monotonic() - began < PARTING else 1)
        say(" ".join(said))

    async def ended(self, child: int) -> int:
        """Wait for a child without blocking the heart, and return its wait status."""
        while True:
            pid, status = os.waitpid(child, os.WNOHANG)  # noqa: ASYNC222  # it does not wait
            if pid:
                return status
            await self.mode.sleep(0.01)

    async def in_child(self, lease: AnyLease) -> None:
        """Check in a forked child: the parent's lease is foreign, and the client works anew."""
        assert (lease.state, lease.loss) == (State.LOST, Loss.FOREIGN)
        await release(lease)  # does nothing, because the lease is the parent's
        assert await try_acquire(self.client.lock("x", ttl=TTL)) is None
        own = await acquire(self.client.lock("y", ttl=TTL), 5)
        await self.mode.sleep(1.5 * TTL)  # the child's own heart renews the lease
        own.ensure_held()
        await release(own)
        left = await acquire(self.client.lock("z", ttl=FOR_EVER), 5)
        assert left.state is State.HELD
        await close(self.client)


def end_child(code: int) -> None:
    """End a forked child: run its exit handlers, but not the code of its parent's frames."""
    if code:
        traceback.print_exc()
    atexit._run_exitfuncs()  # noqa: SLF001  # there is no other way to run them here
    os._exit(code)


def kill_myself() -> None:
    """Kill this process at once, like a power cut."""
    os.kill(os.getpid(), signal.SIGKILL)


def say(word: str) -> None:
    """Print a line for the test."""
    sys.stdout.write(word + "\n")
    sys.stdout.flush()


def main(verb: str, mode: str, url: str) -> None:
    """Run the program that `verb` names."""
    chosen = MODES[mode]()
    program = Program(chosen, url)
    KEPT.append(program)
    verbs = {
        "hold": program.hold,
        "wait": program.wait,
        "claim": program.claim,
        "leave": program.leave,
        "fork": program.fork,
        "lead": program.lead,
        "stand": program.stand,
    }
    chosen.run(verbs[verb]())
