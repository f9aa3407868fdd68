"""`lockfast demo`: what happens to a holder that was paused, with real processes."""

from __future__ import annotations

import signal
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

import lockfast
from lockfast.cli.codes import of_signal
from lockfast.cli.paper import console, show
from lockfast.cli.theatre import served
from lockfast.cli.theatre.actor import Actor
from lockfast.cli.theatre.place import has_redis, memory, redis
from lockfast.cli.theatre.play import BEGIN, RIGHT, Script, bare, guarded
from lockfast.cli.theatre.scene import Scene

Fast = Annotated[bool, typer.Option("--fast", help="Leave no time to read.")]
Memory = Annotated[bool, typer.Option("--memory", help="Start no server, even if there is one.")]
REDIS = "The locks are kept by a Redis that this demo has started, and will end."
OWN = (
    "The locks are kept by this process, in memory, since {why}. The workers reach it through a "
    "socket. All else is as with a server: they are processes, and they are really stopped."
)


def demo(*, fast: Fast = False, memory_only: Memory = False) -> int:
    """Show what happens when a holder believes it still holds the lock, and it does not.

    Two worker processes pay into one account under one lock. One of them is stopped between its
    last check and its write, for longer than its lease lasts; the other takes over; then the
    first goes on. A guard refuses its write. Then the same without a guard, and money is lost.

    Nothing is simulated: the processes are real, and so are SIGSTOP and SIGCONT. The locks are
    in a Redis that the demo starts by itself, or, where there is none, in its own memory. It
    takes about a minute, and leaves nothing behind.

    For example:
      lockfast demo
      lockfast demo --fast       for those who have seen it

    Exit codes:
      0  it went as told
      1  it did not: please tell us
    """
    why = "you said so" if memory_only else "" if has_redis() else "there is no redis-server here"
    before = signal.signal(signal.SIGTERM, _end)
    try:
        balances = _staged(why, fast=fast)
    except KeyboardInterrupt:
        return of_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGTERM, before)
    as_told = balances[0] == RIGHT and balances[1] != RIGHT
    show(Text(f"\nWith a guard {BEGIN} became {balances[0]}; without, {balances[1]}."))
    show(
        Text("The lock keeps two workers from trying. The guard keeps them from succeeding.")
        if as_told
        else Text("This is not as it should be.", style="bold red")
    )
    return 0 if as_told else 1


def _end(number: int, _: object) -> None:
    """Leave by way of all that has to be cleared away."""
    raise SystemExit(of_signal(number))


def _staged(why: str, *, fast: bool) -> tuple[int, int]:
    with tempfile.TemporaryDirectory(prefix="lockfast-demo-") as name:
        folder = Path(name)
        with (memory if why else redis)(folder) as url:
            show(Text(OWN.format(why=why) if why else REDIS))
            return _play(url, folder, fast=fast)


def _play(url: str, folder: Path, *, fast: bool) -> tuple[int, int]:
    connect = served.connect if url.startswith(served.SCHEME) else lockfast.connect
    with connect(url) as client:
        scene = Scene(console(), client.inspect, 0.0 if fast else 2.0)
        with Actor("A", url, scene.tick) as first, Actor("B", url, scene.tick) as second, scene:
            scene.doing = {"A": "idle", "B": "idle"}
            scene.pids = {first.pid: "A", second.pid: "B"}
            script = Script(folder, 2.0 if fast else 5.0, scene, first, second)
            balance = guarded(script)
            scene.wait(0.0 if fast else 5.0)
            return balance, bare(script)
