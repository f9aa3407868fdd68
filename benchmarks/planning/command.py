"""`python -m benchmarks plan`: the model on the command line."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.planning.limits import RULES
from benchmarks.planning.model import Fleet, needs
from benchmarks.planning.report import as_json, report
from benchmarks.planning.stored import PATH, read

SHORTEST, LONGEST = 1.0, 86_400.0  # seconds
MOST = 1e9  # of anything


def main(words: Sequence[str]) -> None:
    """Print what a fleet takes."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks plan",
        description="How many replicas, engine nodes, cores and connections a fleet takes, which "
        "limit is met first, and what each number is based on.",
    )
    parser.add_argument("--clients", type=_count, required=True, help="clients that are connected")
    parser.add_argument("--locks", type=_count, required=True, help="locks held at the same time")
    parser.add_argument("--ttl", type=_ttl, default=30.0, help="of each lock, in seconds")
    parser.add_argument("--rate", type=_number, default=0.0, help="acquisitions per second")
    parser.add_argument("--waiters", type=_count, default=0, help="clients that wait for a lock")
    parser.add_argument("--engine", choices=sorted(RULES), default="redis", help="which engine")
    parser.add_argument("--direct", action="store_true", help="explain the plan without a service")
    parser.add_argument("--costs", type=Path, default=PATH, metavar="FILE", help="constants")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    args = parser.parse_args(words)
    if not args.clients:
        parser.error("a plan needs at least one client")
    try:
        every = read(args.costs)
    except (OSError, ValueError) as error:
        parser.error(f"the constants cannot be read: {error}")
    if args.engine not in every:
        parser.error(
            f"{args.costs} has no constants of {args.engine}: run python -m benchmarks costs "
            f"--engine {args.engine} --save {args.costs}"
        )
    costs = every[args.engine]
    fleet = Fleet(args.engine, args.clients, args.locks, args.ttl, args.rate, waiters=args.waiters)
    fleets = {"service": fleet, "direct": replace(fleet, service=False)}
    if args.direct:
        fleets = dict(reversed(fleets.items()))
    found = {name: needs(each, costs) for name, each in fleets.items()}
    if args.json:
        print(json.dumps({"benchmark": "plan", "engine": args.engine, **as_json(found, costs)}))
    else:
        print(report(fleets, found, costs))


def _number(word: str) -> float:
    """Read a number, such as 1e6."""
    try:
        value = float(word)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{word!r} is not a number") from None
    if not math.isfinite(value) or not 0.0 <= value <= MOST:
        raise argparse.ArgumentTypeError(f"{word} is not between 0 and {MOST:.0e}")
    return value


def _count(word: str) -> int:
    value = _number(word)
    if value != int(value):
        raise argparse.ArgumentTypeError(f"{word} is not a whole number")
    return int(value)


def _ttl(word: str) -> float:
    value = _number(word)
    if not SHORTEST <= value <= LONGEST:
        raise argparse.ArgumentTypeError(f"{word} s is not between 1 and 86400 s")
    return value
