"""Many runs, each a process of its own, two at a time: all of CI, or torture without end."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, NamedTuple

from tests.robustness import killed
from tests.robustness.figures import Figures
from tests.robustness.report.campaign import Campaign
from tests.robustness.scenario import Scenario, load, names
from tests.robustness.setups import DEFAULT, OTHERS, Setup, choose
from tests.robustness.sites import SITES
from tests.robustness.stamp import today, version
from tests.robustness.traffic.process import ROOT
from tests.stolen import Watch, wait_quiet

AT_ONCE = 2  # more would starve the hearts of the workers, on two cores
ROUNDS = 3  # of CI, at most
_PATIENCE = 900.0  # seconds for one run


class Ask(NamedTuple):
    """One run to be."""

    scenario: str
    seed: int
    seconds: float
    out: Path
    setup: Setup = DEFAULT


def run(ask: Ask) -> dict[str, Any]:
    """Run one in a process of its own; what it said stays in its folder."""
    ask.out.mkdir(parents=True, exist_ok=True)
    log = ask.out.with_suffix(".log")
    argv = [
        *(sys.executable, "-m", "tests.robustness", ask.scenario, "--seed", str(ask.seed)),
        *("--seconds", str(ask.seconds), "--out", str(ask.out), "--setup", ask.setup.name),
    ]
    with log.open("w", encoding="utf-8") as said:
        try:
            subprocess.run(argv, cwd=ROOT, stdout=said, stderr=said, timeout=_PATIENCE, check=False)
        except subprocess.TimeoutExpired:
            said.write(f"not within {_PATIENCE:g} s\n")
    if ask.out.exists():
        log = log.rename(ask.out / "log")
    result = ask.out / "result.json"
    if not result.exists():
        result.write_text(json.dumps(unfinished(ask, log.read_text("utf-8")[-800:])), "utf-8")
    found: dict[str, Any] = json.loads(result.read_text("utf-8"))
    return found


def unfinished(ask: Ask, tail: str) -> dict[str, Any]:
    """Return the result of a run that has written none. It counts as a violation."""
    return {
        "scenario": ask.scenario,
        "seed": ask.seed,
        "engine": "",
        "setup": ask.setup.name,
        "faults": {},
        "violations": [{"checker": "harness", "said": f"it did not come to its end: {tail}"}],
        "version": version(),
        "date": today(),
    }


def results(asks: Iterator[Ask], say: Callable[[str], None]) -> Iterator[dict[str, Any]]:
    """Give the results as they come, of two at a time."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        pending: set[Future[dict[str, Any]]] = set()
        while True:
            for ask in itertools.islice(asks, AT_ONCE - len(pending)):
                say(f"{ask.scenario}/{ask.seed} begins")
                pending.add(pool.submit(run, ask))
            if not pending:
                return
            done, pending = wait(pending, return_when=FIRST_COMPLETED)
            for each in done:
                yield each.result()


def _talk() -> Callable[[str], None]:
    began = time.monotonic()
    return lambda what: print(f"{time.monotonic() - began:7.1f} {what}", flush=True)


def ci(out: Path) -> int:
    """Run all scenarios of CI with their seeds, longest first. The exit status is 1 if a rule was
    broken, or if there was too little of anything to say so.

    A slow machine sees fewer faults in the same time. So an engine that had too few of anything is
    run again with another seed, and what came is added up.
    """
    shutil.rmtree(out, ignore_errors=True)
    scenarios = [scenario for scenario in map(load, names()) if scenario.ci]
    scenarios.sort(key=lambda scenario: -scenario.seconds)
    say, figures = _talk(), Figures()

    def asks(chosen: list[Scenario], more: int) -> Iterator[Ask]:
        watch = Watch()
        for each in chosen:
            wait_quiet(watch)
            watch = Watch()
            name = f"{each.name}-{more}" if more else each.name
            yield Ask(each.name, each.seed + more, each.seconds, out / name)

    for more in range(ROUNDS):
        for result in results(asks(scenarios, more), say):
            figures.add(result)
            say(figures.line(result))
        short = figures.short()
        scenarios = [each for each in scenarios if SITES[each.site].engine in short]
        if figures.broken or not scenarios:
            break
    print(figures.table())
    failed = [*figures.broken, *itertools.chain.from_iterable(short.values())]
    for said in failed:
        print(f"FAILED: {said}")
    (out / "ci.json").write_text(json.dumps(figures.summary(), indent=1) + "\n", "utf-8")
    return bool(failed)


def rotation(seed: int, out: Path) -> list[Ask]:
    """Return the runs with one seed: each scenario in one set-up, and SQLite."""
    asks = [
        Ask(name, seed, scenario.seconds, out / f"{name}-{seed}", choose(scenario.site, seed))
        for name in names()
        for scenario in [load(name)]
    ]
    return [*asks, Ask(killed.NAME, seed, killed.SECONDS, out / f"{killed.NAME}-{seed}")]


def after(out: Path) -> int:
    """Return the first seed that neither has a folder nor is in the ledger of the campaign."""
    found = [int(path.name.rpartition("-")[2]) for path in out.glob("*-[0-9]*") if path.is_dir()]
    return 1 + max([0, *found, *Campaign.read().seeds])


def torture(out: Path, hours: float, first: int | None) -> int:
    """Go through scenarios and seeds until the time is over; keep the folder of each failing one.
    The seed chooses the set-up too. Without a first seed, go on behind the last one.

    torture.json is written after every run: a run that is stopped has its figures too.
    """
    out.mkdir(parents=True, exist_ok=True)
    for setup in OTHERS:  # all, so that none is found missing in the middle of the night
        setup.environment()
    first = first or after(out)
    end = time.monotonic() + hours * 3600
    say, figures = _talk(), Figures()

    def asks() -> Iterator[Ask]:
        for seed in itertools.count(first):
            for ask in rotation(seed, out):
                if time.monotonic() > end:
                    return
                yield ask

    for result in results(asks(), say):
        figures.add(result)
        say(figures.line(result))
        if not result["violations"]:
            # The report needs its result and its moments, and an hour has gigabytes of the rest.
            for kept in ("history", "logs"):
                folder = out / f"{result['scenario']}-{result['seed']}" / kept
                shutil.rmtree(folder, ignore_errors=True)  # SQLite's have none
        (out / "torture.json").write_text(json.dumps(figures.summary(), indent=1) + "\n", "utf-8")
    print(figures.table())
    return bool(figures.broken)
