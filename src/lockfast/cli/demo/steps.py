"""The script of the demo: two payments into one account, and a pause at the worst moment.

The demo plays it twice, first with a guard and then without.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from lockfast.cli.demo.display import Scene
from lockfast.cli.demo.worker import AMOUNT
from lockfast.cli.demo.worker_process import Actor

BEGIN = 100
RIGHT = BEGIN + 2 * AMOUNT
GUARDED = True


class Script(NamedTuple):
    """The parts that both acts use."""

    folder: Path
    ttl: float
    scene: Scene
    first: Actor
    second: Actor


def guarded(script: Script) -> int:
    """Play the act with a guard, and return the balance at its end."""
    scene, first = script.scene, script.first
    path = script.folder / "guarded"
    _until_the_pause_is_over(script, "Act 1: the account has a guard", path, guarded=True)
    word, said = first.call("write", str(path), GUARDED)
    scene.doing["A"] = f"writes {BEGIN + AMOUNT}: {word}"
    scene.tell(f"A writes {BEGIN + AMOUNT}, and the guard answers with {word}:", "bold green")
    scene.tell(f"  {said}", "green")
    first.call("leave")
    scene.tell("A starts again: it acquires the lock, reads the balance, and writes.")
    _pay(script, first, path, guarded=True)
    return _end(script, path)


def bare(script: Script) -> int:
    """Play the act without a guard, and return the balance at its end."""
    scene, first = script.scene, script.first
    path = script.folder / "bare"
    _until_the_pause_is_over(script, "Act 2: the account has no guard", path, guarded=False)
    _, said = first.call("write", str(path), not GUARDED)
    scene.doing["A"] = f"wrote {said}"
    scene.tell(f"A writes {said}. The account has no guard, and accepts the stale write.", "red")
    word, said = first.call("leave")
    scene.tell(f"A releases the lock, and learns only now that it was lost: {word}.")
    scene.tell(f"  {said}")
    return _end(script, path)


def _until_the_pause_is_over(script: Script, title: str, path: Path, *, guarded: bool) -> None:
    """Play the part that both acts share: from the start until worker A continues."""
    scene, first, second = script.scene, script.first, script.second
    path.write_text(str(BEGIN), "ascii")
    scene.act(title, path)
    scene.tell(f"A and B each pay {AMOUNT} into an account of {BEGIN}. One lock protects it.")
    _, token = first.call("take", path.name, script.ttl)
    scene.doing["A"] = "holds the lock"
    scene.tell(f"A acquires the lock, with token {token}.")
    balance = _read(script, first, path, guarded=guarded)
    scene.doing["A"] = f"has read {balance}"
    scene.tell(f"A reads {balance}, and checks that it still holds the lock. It does.")
    first.stop()
    scene.doing["A"] = f"has read {balance}\nSTOPPED"
    scene.tell("SIGSTOP pauses A, as a suspended machine does.", "yellow")
    second.ask("take", path.name, script.ttl)
    scene.doing["B"] = "waits for the lock"
    scene.tell(f"B waits. A cannot renew its lease, which expires within {script.ttl:g} s.")
    _, later = second.hear()
    scene.doing["B"] = "holds the lock"
    scene.tell(f"B acquires the lock, with token {later}, which is higher.")
    _pay(script, second, path, guarded=guarded, held=True)
    first.go_on()
    scene.doing["A"] = f"has read {balance}\ncontinues"
    scene.tell("SIGCONT resumes A after its check and before its write.", "yellow")


def _pay(script: Script, actor: Actor, path: Path, *, guarded: bool, held: bool = False) -> None:
    """Let a worker pay in without a pause. `held`: it holds the lock already."""
    scene, name = script.scene, actor.name
    if not held:
        actor.call("take", path.name, script.ttl)
    before = _read(script, actor, path, guarded=guarded)
    _, after = actor.call("write", str(path), guarded)
    actor.call("leave")
    scene.doing[name] = f"has paid: {before}, then {after}"
    scene.tell(f"{name} reads {before}, writes {after}, and releases the lock.")


def _read(script: Script, actor: Actor, path: Path, *, guarded: bool) -> str:
    """Let a worker that holds the lock read the balance, and return the balance.

    If it fails, let the worker acquire the lock again: a busy machine may be too slow for the ttl.
    """
    while True:
        word, said = actor.call("read", str(path), guarded)
        if word == "read":
            return said
        script.scene.tell(
            f"This machine is busy, and {actor.name} was too slow: {word}. It tries again."
        )
        actor.call("leave")
        actor.call("take", path.name, script.ttl)


def _end(script: Script, path: Path) -> int:
    """Show whether the balance is correct, and return it."""
    balance = int(path.read_text("ascii"))
    right = balance == RIGHT
    script.scene.tell(
        f"After two payments of {AMOUNT}, the balance is {balance}. "
        + ("That is correct." if right else f"That is wrong: {RIGHT - balance} are lost."),
        "bold green" if right else "bold red",
    )
    return balance
