"""The harness: one scenario, all that CI runs, or torture without end.

python -m tests.robustness redis --seed 7 --seconds 30
python -m tests.robustness redis --previous c0ff680
python -m tests.robustness redis --setup valkey-9.1
python -m tests.robustness ci
python -m tests.robustness torture --hours 8
python -m tests.robustness controls
python -m tests.robustness hostile --seconds 60
python -m tests.robustness killed --seconds 60
python -m tests.robustness storm --kind start --clients 10000
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

from tests.previous.version import VERSIONS
from tests.robustness import killed, storm
from tests.robustness.controls import run as controls
from tests.robustness.hostile import run as hostile
from tests.robustness.many import ci, torture
from tests.robustness.run import Run
from tests.robustness.scenario import load, names
from tests.robustness.setups import DEFAULT, SETUPS, of_site

BUILD = Path("build/robustness")


def one(asked: argparse.Namespace) -> int:
    """Run one scenario. The exit status is 1 if a rule was broken."""
    scenario = load(asked.what)
    if asked.previous is not None:
        scenario = replace(scenario, previous=asked.previous)
    seed = scenario.seed if asked.seed is None else asked.seed
    seconds = scenario.seconds if asked.seconds is None else asked.seconds
    setup = SETUPS[asked.setup]
    if setup not in of_site(scenario.site):
        print(f"{scenario.name} has no set-up {setup.name}")
        return 2
    os.environ.update(setup.environment())  # for the servers, which this process starts
    out = asked.out or BUILD / f"{scenario.name}-{seed}"
    shutil.rmtree(out, ignore_errors=True)
    began = time.monotonic()

    def say(what: str) -> None:
        print(f"{time.monotonic() - began:6.1f} {scenario.name}/{seed}: {what}", flush=True)

    result = Run(scenario, seed, seconds, out, setup=setup, say=say).run()
    for violation in result["violations"]:
        say(f"VIOLATION {violation['checker']}: {violation['said']}")
    writes = result["writes"]
    modes = ", ".join(f"{count} by {mode}" for mode, count in result["granted"].items())
    say(
        f"{result['acquisitions']} acquisitions ({modes}), "
        f"{sum(result['faults'].values())} faults, "
        f"{writes['fenced']['refused']} stale writes refused, "
        f"{writes['unfenced']['stale_applied']} applied by the twin, "
        f"{result['overlaps']['count']} overlaps of belief; {out}"
    )
    return bool(result["violations"])


def storms(asked: argparse.Namespace) -> int:
    """Run one storm, or all. The exit status is 1 if a rule was broken."""
    kinds = [asked.kind] if asked.kind else list(storm.KINDS)
    say = bool if asked.json else partial(print, file=sys.stderr, flush=True)
    return max([storm.run(kind, asked.clients, asked.ttl, say) for kind in kinds])


def main() -> int:  # noqa: PLR0911  # one for each command
    """Do what is asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "what", choices=[*names(), "ci", "torture", "controls", "hostile", "killed", "storm"]
    )
    parser.add_argument("--seed", type=int, help="of the plan and of all choices")
    parser.add_argument("--seconds", type=float, help="of faults, at least")
    parser.add_argument("--out", type=Path, help="the folder for what was found")
    parser.add_argument("--hours", type=float, default=8.0, help="of torture (8)")
    parser.add_argument("--previous", choices=["", *VERSIONS], help="what every other worker runs")
    parser.add_argument(
        "--setup", choices=SETUPS, default=DEFAULT.name, help="the servers' versions, TLS, a pooler"
    )
    parser.add_argument("--engine", choices=hostile.ENGINES, help="of hostile, this one alone")
    parser.add_argument("--control", help="of the controls, this one alone")
    parser.add_argument(
        "--healthy", action="store_true", help="controls without their mutants: none may be caught"
    )
    parser.add_argument("--kind", choices=storm.KINDS, help="of storm, this one alone")
    parser.add_argument("--clients", type=int, default=15_000, help="of a storm (15,000)")
    parser.add_argument("--ttl", type=float, default=30.0, help="of the leases in a storm (30)")
    parser.add_argument("--json", action="store_true", help="of a storm, its figures only")
    asked = parser.parse_args()
    if asked.what == "ci":
        return ci(asked.out or BUILD / "ci")
    if asked.what == "torture":
        return torture(asked.out or BUILD / "torture", asked.hours, asked.seed)
    if asked.what == "controls":
        return controls.run(
            asked.out or BUILD / "controls", asked.control, mutated=not asked.healthy
        )
    if asked.what == "hostile":
        return hostile.run(asked.seconds or 60.0, asked.seed or 1, print, asked.engine)
    if asked.what == "killed":
        return killed.run(asked.seconds or killed.SECONDS, asked.seed or 1, print, asked.out)
    if asked.what == "storm":
        return storms(asked)
    return one(asked)


if __name__ == "__main__":  # not in the processes that it spawns
    sys.exit(main())
