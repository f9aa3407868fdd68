"""`lockfast demo`: show with real processes what a paused lock holder overwrites."""

from __future__ import annotations

import signal
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

import lockfast
from lockfast.cli.demo import memory_server
from lockfast.cli.demo.display import Scene
from lockfast.cli.demo.on_the_web import play
from lockfast.cli.demo.steps import BEGIN, RIGHT, Script, bare, guarded
from lockfast.cli.demo.temporary_engine import has_redis, memory, redis
from lockfast.cli.demo.worker_process import Actor
from lockfast.cli.exit_codes import of_signal
from lockfast.cli.render.stdout import console, show

Fast = Annotated[bool, typer.Option("--fast", help="Do not pause between the lines.")]
Memory = Annotated[
    bool, typer.Option("--memory", help="Keep the locks in memory, and start no Redis server.")
]
Web = Annotated[
    bool, typer.Option("--web", help="Show a dashboard of more workers, until you end it.")
]
Seconds = Annotated[
    float | None,
    typer.Option("--seconds", metavar="N", min=1, help="With --web: end after this long."),
]
REDIS = "This demo runs its own temporary Redis server."
MISSING = "redis-server or the Python package hiredis is not installed"
OWN = (
    "This demo keeps the locks in its own memory, because {why}. The workers are real processes, "
    "and connect to the demo through a socket."
)


def demo(
    *, fast: Fast = False, memory_only: Memory = False, web: Web = False, seconds: Seconds = None
) -> int:
    """Show how a paused worker overwrites data, and how a guard prevents it.

    Two worker processes pay into one account. One lock protects it. The demo stops one worker
    between its last check and its write, for longer than its lease lasts. The other worker
    acquires the lock. Then the first worker continues. With a guard, the account rejects the
    stale write. Without a guard, a payment is lost.

    The workers are real processes, and the demo sends them SIGSTOP and SIGCONT. It runs its own
    temporary Redis server, or keeps the locks in memory if Redis is not installed. It takes
    about a minute, and leaves nothing behind.

    With --web, it runs eight worker processes that hold and wait for locks of all kinds, and shows
    them in a browser. The demo pauses one of them at times, two of them deadlock now and then, and
    one hangs until its lock is broken. Ctrl-C ends it. It needs the extra `web`.

    For example:
      lockfast demo
      lockfast demo --fast       without pauses
      lockfast demo --web        in a browser

    Exit codes:
      0   the demo ran as described
      1   it did not: please report it
      64  --seconds without --web
      78  --web, and the extra `web` is missing
    """
    if seconds is not None and not web:
        raise typer.BadParameter("--seconds needs --web")
    why = "you passed --memory" if memory_only else "" if has_redis() else MISSING
    before = signal.signal(signal.SIGTERM, _end)
    try:
        with tempfile.TemporaryDirectory(prefix="lockfast-demo-") as name:
            show(Text(OWN.format(why=why) if why else REDIS))
            if web:
                play(Path(name), in_memory=bool(why), seconds=seconds)
                return 0
            balances = _staged(Path(name), in_memory=bool(why), fast=fast)
    except KeyboardInterrupt:
        return of_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGTERM, before)
    as_told = balances[0] == RIGHT and balances[1] != RIGHT
    show(
        Text(f"\nThe balance was {BEGIN}. With a guard it is {balances[0]}, without {balances[1]}.")
    )
    show(
        Text("A lock alone does not stop the write of a paused worker. A guard rejects it.")
        if as_told
        else Text("The demo did not run as expected.", style="bold red")
    )
    return 0 if as_told else 1


def _end(number: int, _: object) -> None:
    """Raise `SystemExit` on SIGTERM, so that the `with` blocks end the processes of the demo."""
    raise SystemExit(of_signal(number))


def _staged(folder: Path, *, in_memory: bool, fast: bool) -> tuple[int, int]:
    with memory(folder) if in_memory else redis(folder) as url:
        return _play(url, folder, fast=fast)


def _play(url: str, folder: Path, *, fast: bool) -> tuple[int, int]:
    connect = memory_server.connect if url.startswith(memory_server.SCHEME) else lockfast.connect
    with connect(url) as client:
        scene = Scene(console(), client.inspect, 0.0 if fast else 2.0)
        with Actor("A", url, scene.tick) as first, Actor("B", url, scene.tick) as second, scene:
            scene.doing = {"A": "idle", "B": "idle"}
            scene.pids = {first.pid: "A", second.pid: "B"}
            script = Script(folder, 2.0 if fast else 5.0, scene, first, second)
            balance = guarded(script)
            scene.wait(0.0 if fast else 5.0)
            return balance, bare(script)
