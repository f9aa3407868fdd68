"""The story that every guard must survive, told with real processes.

A acquires and writes; A is stopped, and its lease ends; B acquires, seals, reads and writes; A goes
on and writes. A guarded resource refuses it and keeps B's value; an unguarded one is corrupted.

`python -m tests.guards.story URL MODULE:CLASS WHERE` is one of the two: it answers each line on its
standard input, a JSON list of a word and its arguments, with one line.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import lockfast
from lockfast import LeaseLost, StaleToken, aio
from lockfast.primitives.lease import LeaseCore
from lockfast.runtime.drive import drive
from tests.servers import wait_until

_ROOT = Path(__file__).parents[2]
NAME = "story"
TTL = 0.4


class Resource(Protocol):
    """One register, as a process sees it. Every process makes its own.

    Its methods block, or all of them are coroutines: then the process lives in asyncio. A test may
    have it do more than this: `Actor.call` reaches any method, the lease comes first.
    """

    def __init__(self, where: str) -> None:
        """Find it: `where` is whatever the test and the class agree on, such as a URL."""

    def seal(self, lease: Any) -> Any:
        """Raise the mark: the new holder is here."""

    def read(self, lease: Any) -> Any:
        """Give the value, a str."""

    def write(self, lease: Any, value: str) -> Any:
        """Write through the guard."""

    def write_bare(self, lease: Any, value: str) -> Any:
        """Write as somebody does who has no guard; the lease is not looked at."""

    def close(self) -> Any:
        """Let go of connections."""


class Actor:
    """The test's side of a process."""

    def __init__(self, url: str, resource: type[Resource], where: str) -> None:
        """Start it; it holds nothing yet."""
        which = f"{resource.__module__}:{resource.__qualname__}"
        self._process = subprocess.Popen(
            [sys.executable, "-W", "error", "-m", "tests.guards.story", url, which, where],
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    def send(self, word: str, *args: object) -> None:
        """Ask for something, and do not wait for the answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([word, *args]) + "\n")

    def answer(self) -> Any:
        """Wait for the answer; raise the `StaleToken` or the `LeaseLost` that it was."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the process has ended"
        kind, value = json.loads(line)
        if kind == "stale":
            raise StaleToken(*value)
        if kind == "lost":
            name, ticket, reason = value
            raise LeaseLost(name, ticket, lockfast.Loss[reason])
        if kind == "error":
            raise AssertionError(value)
        return value

    def call(self, word: str, *args: object) -> Any:
        """Ask, and wait: a method of the resource, or acquire, state, ensure, told, release."""
        self.send(word, *args)
        return self.answer()

    def pause(self) -> None:
        """Stop it where it is. Returns once it stands still."""
        self._process.send_signal(signal.SIGSTOP)
        stat = Path(f"/proc/{self._process.pid}/stat")
        wait_until(
            lambda: stat.read_text(encoding="ascii").rpartition(")")[2].split()[0] == "T",
            "the actor is paused",
        )

    def resume(self) -> None:
        """Let it go on."""
        self._process.send_signal(signal.SIGCONT)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


def refused(url: str, resource: type[Resource], where: str, name: str = NAME) -> None:
    """Tell the story with the guard: A is refused and knows it, and B's value stands."""
    with ExitStack() as stack:
        a, b, tokens = _to_the_second_write(stack, url, resource, where, name, "write")
        error = _stale(a)
        assert (error.name, error.token, error.current) == (name, *tokens)
        assert all(str(each) in str(error) for each in (name, *tokens))
        assert b.call("read") == "B"
        assert a.call("state") == "LOST"
        wait_until(lambda: bool(a.call("told") == 1), "the holder's callback has run, once")
        try:
            a.call("ensure")
        except LeaseLost:
            pass
        else:
            raise AssertionError("ensure_held() did not tell")
        b.call("write", "B again")  # trap 29
        assert b.call("read") == "B again"


def _stale(a: Actor) -> StaleToken:
    try:
        a.call("write", "A, late")
    except StaleToken as error:
        return error
    raise AssertionError("the stale write was not refused")


def corrupted(url: str, resource: type[Resource], where: str, name: str = NAME) -> None:
    """Tell the story without the guard: the lock alone cannot keep B's value."""
    with ExitStack() as stack:
        a, b, _ = _to_the_second_write(stack, url, resource, where, name, "write_bare")
        a.call("write_bare", "A, late")
        assert b.call("read") == "A, late"


def _to_the_second_write(  # noqa: PLR0913, PLR0917  # the cast and the scene
    stack: ExitStack, url: str, resource: type[Resource], where: str, name: str, write: str
) -> tuple[Actor, Actor, tuple[int, int]]:
    guarded = write == "write"
    a = stack.enter_context(Actor(url, resource, where))
    b = stack.enter_context(Actor(url, resource, where))
    first = a.call("acquire", name, TTL)
    if guarded:
        a.call("seal")
    a.call(write, "A")
    a.pause()
    second = b.call("acquire", name, 30.0)  # when A's lease has ended, and not before
    assert second > first
    if guarded:
        b.call("seal")
    assert b.call("read") == "A"
    b.call(write, "B")
    a.resume()
    return a, b, (first, second)


# The actor's side -------------------------------------------------------------------------------


async def _settled(value: Any) -> Any:
    """Await what is awaitable, so that one actor serves both modes."""
    return await value if inspect.isawaitable(value) else value


async def _act(client: Any, resource: Any, line: Callable[[], Any]) -> None:
    lease: Any = None
    told: list[None] = []

    async def obey(word: str, *args: Any) -> object:
        nonlocal lease
        if word == "acquire":
            name, ttl = args
            lease = await _settled(client.lock(name, ttl=ttl).acquire(timeout=20))
            lease.on_lost(lambda: told.append(None))
            return lease.token
        if word == "release":
            return await _settled(lease.release())
        if word in _ASKED:
            return _ASKED[word](lease)
        if word == "told":
            return len(told)
        return await _settled(getattr(resource, word)(lease, *args))

    while text := await _settled(line()):
        try:
            said: tuple[str, object] = ("done", await obey(*json.loads(text)))
        except StaleToken as error:
            said = ("stale", [error.name, error.token, error.current])
        except LeaseLost as error:
            said = ("lost", [error.name, error.ticket, error.reason.name])
        except Exception as error:  # noqa: BLE001  # the test is told, and fails
            said = ("error", f"{type(error).__name__}: {error}")
        sys.stdout.write(json.dumps(said) + "\n")
        sys.stdout.flush()
    await _settled(resource.close())


_ASKED: dict[str, Callable[[LeaseCore], object]] = {
    "state": lambda lease: lease.state.name,
    "loss": lambda lease: lease.loss.name if lease.loss else None,
    "ensure": lambda lease: lease.ensure_held(),
}


async def _in_loop(url: str, make: Callable[[], Resource]) -> None:
    loop = asyncio.get_running_loop()

    async with aio.connect(url) as client:
        await _act(client, make(), lambda: loop.run_in_executor(None, sys.stdin.readline))


def main() -> None:
    """Play one part."""
    url, which, where = sys.argv[1:]
    module, _, name = which.partition(":")
    resource: type[Resource] = getattr(importlib.import_module(module), name)
    if inspect.iscoroutinefunction(resource.write):
        asyncio.run(_in_loop(url, lambda: resource(where)))
    else:
        with lockfast.connect(url) as client:
            drive(_act(client, resource(where), sys.stdin.readline))


if __name__ == "__main__":
    main()
