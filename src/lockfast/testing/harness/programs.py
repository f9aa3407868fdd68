"""Programs that a test starts, and kills: `main(verb, mode, url)` in a process of its own.

Each says on standard output what it has done, one word a line, and is written once for both
modes. They work on the name "x".
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
KEPT: list[object] = []  # what a program has at module level lives until it ends


class Program:
    """One process with one client."""

    def __init__(self, mode: Mode, url: str) -> None:
        """Nothing is opened yet."""
        self.mode = mode
        self.url = url
        self.client: AnyClient = connect(url) if isinstance(mode, Threaded) else aio.connect(url)

    async def hold(self) -> None:
        """Hold until killed."""
        lease = await acquire(self.client.lock("x", ttl=TTL))
        say("held")
        await self.mode.sleep(FOR_EVER)
        await release(lease)

    async def wait(self) -> None:
        """Wait until killed."""
        say("waiting")
        await acquire(self.client.lock("x", ttl=TTL))

    async def claim(self) -> None:
        """Die right after the engine has the claim, without having seen the reply."""
        way, target = Shaky(), parse(self.url)
        way.after_claim = kill_myself
        client = made(self.mode, lambda runtime: way.to(opener(target, runtime)()))
        await acquire(client.lock("x", ttl=TTL))

    async def leave(self) -> None:
        """End without releasing, as a program does that forgot to."""
        self.lease = await acquire(self.client.lock("x", ttl=FOR_EVER))
        say("held")

    async def fork(self) -> None:
        """Hold, fork, and see whether each has its own."""
        lease = await acquire(self.client.lock("x", ttl=TTL))
        child = os.fork()
        if not child:
            # A loop is not inherited: an asyncio child works in a loop of its own.
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
        """Lead, and show the term for every line of input, whatever has happened meanwhile."""
        lease = await campaign(self.client.election("x", ttl=TTL), "the first")
        say("leads")
        while True:
            while not select.select([sys.stdin], [], [], 0)[0]:
                await self.mode.sleep(0.01)
            if not sys.stdin.readline():
                return
            say(f"{lease.token} {lease.id} {lease.state.value}")

    async def stand(self) -> None:
        """Stand for an election, fork, and let the child leave the block that the parent is in."""
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
            # It has left at once, and ended nothing: it is its parent that stands.
            end_child(0 if said == ["leads"] and time.monotonic() - began < PARTING else 1)
        say(" ".join(said))

    async def ended(self, child: int) -> int:
        """Wait for a child, while the heart goes on."""
        while True:
            pid, status = os.waitpid(child, os.WNOHANG)  # noqa: ASYNC222  # it does not wait
            if pid:
                return status
            await self.mode.sleep(0.01)

    async def in_child(self, lease: AnyLease) -> None:
        """Be a child: what was held is foreign, and the client works anew."""
        assert (lease.state, lease.loss) == (State.LOST, Loss.FOREIGN)
        await release(lease)  # nothing: it is the parent's
        assert await try_acquire(self.client.lock("x", ttl=TTL)) is None
        own = await acquire(self.client.lock("y", ttl=TTL), 5)
        await self.mode.sleep(1.5 * TTL)  # kept by a heart of its own
        own.ensure_held()
        await release(own)
        left = await acquire(self.client.lock("z", ttl=FOR_EVER), 5)
        assert left.state is State.HELD
        await close(self.client)


def end_child(code: int) -> None:
    """End as a program does, with its exit handlers, but not by way of the parent's frames."""
    if code:
        traceback.print_exc()
    atexit._run_exitfuncs()  # noqa: SLF001  # there is no other way to run them here
    os._exit(code)


def kill_myself() -> None:
    """Die at once, as by a power cut."""
    os.kill(os.getpid(), signal.SIGKILL)


def say(word: str) -> None:
    """Tell the test."""
    sys.stdout.write(word + "\n")
    sys.stdout.flush()


def main(verb: str, mode: str, url: str) -> None:
    """Run one program."""
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
