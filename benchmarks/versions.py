"""Two versions of lockfast on one server: each hands a lock from process to process, in turns."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from contextlib import ExitStack
from multiprocessing.connection import Connection
from pathlib import Path

from benchmarks.duel import NAME, TTL, duel, duel_in_a_task
from benchmarks.handoff import compare, handoffs, times_of, turn_of
from benchmarks.rounds import interleave
from benchmarks.stage import Figure, Result, Stage
from benchmarks.workers import Main, two
from tests.previous.version import ROOT, Version

LETTERS = 7  # of a commit, in names


def run(stage: Stage, commit: str) -> Result:
    """Compare this working tree with a commit, in both modes."""
    whole = _whole(commit)
    before = Version(whole[:LETTERS], commit=whole).unpacked() / "src"
    modes: dict[str, Main] = {"threads": _threads, "asyncio": _asyncio}
    with stage.against.start() as server, ExitStack() as stack:
        turns = {
            f"{mode}{word}": turn_of(
                stack.enter_context(two(main, server.url, str(source))),
                stage.pick(0.6, 0.15),
                handoffs,
            )
            for mode, main in modes.items()
            for word, source in (("", ROOT / "src"), (" before", before))
        }
        results = interleave(turns, stage.count(24, 2), stage.say)
    ratios = {mode: compare(results[mode], results[f"{mode} before"]) for mode in modes}
    times = {name: times_of(rounds) for name, rounds in results.items()}
    figures: dict[str, Figure] = {"before": commit}
    figures |= {f"{mode}_ratio_to_before": ratio for mode, ratio in ratios.items()}
    return Result(
        figures={**figures, **times},
        head=("gap", "p50 µs", "p99 µs", "of before", "samples"),
        rows=[
            (
                name,
                f"{each['p50_us']:,.0f}",
                f"{each['p99_us']:,.0f}",
                f"{ratios[name]:.3f} x" if name in ratios else "",
                str(sum(map(len, results[name]))),
            )
            for name, each in times.items()
        ],
    )


def _whole(commit: str) -> str:
    argv = ["git", "-C", str(ROOT), "rev-parse", "--verify", f"{commit}^{{commit}}"]
    return subprocess.run(argv, stdout=subprocess.PIPE, check=True, text=True).stdout.strip()


# --- what the processes do ----------------------------------------------------------------------


def _load(source: str) -> str:
    """Make `import lockfast` import a version, and return the name of its lock.

    multiprocessing has imported the benchmarks here, and with them this working tree's lockfast. So
    that is forgotten first, for both versions. Each has a lock of its own, because a version may
    refuse what another has stored.
    """
    for name in [name for name in sys.modules if name.partition(".")[0] == "lockfast"]:
        del sys.modules[name]
    sys.path.insert(0, source)
    import lockfast  # noqa: PLC0415  # see above

    found = lockfast.__file__
    assert found is not None
    assert Path(found).is_relative_to(source), f"{found} is not of {source}"
    return f"{NAME} {source}"


def _threads(pipe: Connection, _side: int, url: str, source: str) -> None:
    name = _load(source)
    from lockfast import connect  # noqa: PLC0415  # of that version

    with connect(url) as client:
        duel(pipe, client.lock(name, ttl=TTL).acquire, lambda lease: lease.release())


def _asyncio(pipe: Connection, _side: int, url: str, source: str) -> None:
    name = _load(source)
    from lockfast import aio  # noqa: PLC0415  # of that version

    async def main() -> None:
        async with aio.connect(url) as client:
            lock = client.lock(name, ttl=TTL)
            await duel_in_a_task(pipe, lock.acquire, lambda lease: lease.release())

    asyncio.run(main())
