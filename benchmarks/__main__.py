"""Run one benchmark: `python -m benchmarks NAME --engine ENGINE --json`."""

from __future__ import annotations

import argparse
import json
import sys
from importlib import import_module
from pathlib import Path

from benchmarks.against import ENGINES
from benchmarks.planning.stored import store
from benchmarks.stage import Stage, table

# In the order in which `make bench` runs them.
BENCHMARKS = (
    "pair",
    "tasks",
    "handoff",
    "handover",
    "fight",
    "crowd",
    "hold",
    "server",
    "guard",
    "together",
    "service",
    "idle",
    "costs",
    "http",
    "web",
    "scale",
)
ON_EVERY_ENGINE = (
    "pair",
    "tasks",
    "handoff",
    "handover",
    "fight",
    "hold",
    "together",
    "service",
    "idle",
    "costs",
)


def main() -> None:
    if sys.argv[1:2] == ["plan"]:  # it measures nothing, and has arguments of its own
        import_module("benchmarks.planning.command").main(sys.argv[2:])
        return
    # Not at the top: worker processes import this module too, and need one of them.
    modules = {name: import_module(f"benchmarks.{name}") for name in BENCHMARKS}
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure lockfast against others, both sides in turns within one run.",
        epilog="\n".join(
            [
                *(f"  {name:8} {module.__doc__}" for name, module in modules.items()),
                "  plan     What a fleet takes: see python -m benchmarks plan --help",
            ]
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", choices=BENCHMARKS, help="which benchmark")
    parser.add_argument("--engine", choices=ENGINES, default="redis", help="on which engine")
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    parser.add_argument("--quick", action="store_true", help="a short run, to see that it works")
    parser.add_argument("--before", metavar="COMMIT", help="compare the handoff with a commit's")
    parser.add_argument("--point", choices=modules["scale"].POINTS, help="only this point of scale")
    parser.add_argument("--save", metavar="FILE", type=Path, help="put the costs into a file")
    args = parser.parse_args()
    if args.engine != "redis" and args.name not in ON_EVERY_ENGINE:
        parser.error(f"{args.name} is for redis; on every engine: {', '.join(ON_EVERY_ENGINE)}")
    if args.before and args.name != "handoff":
        parser.error("--before is for handoff")
    if args.point and args.name != "scale":
        parser.error("--point is for scale")
    if args.save and args.name != "costs":
        parser.error("--save is for costs")
    stage = Stage(engine=args.engine, quick=args.quick)
    if args.before:
        result = import_module("benchmarks.versions").run(stage, args.before)
    elif args.point:
        result = modules["scale"].run(stage, args.point)
    else:
        result = modules[args.name].run(stage)
    if args.save:
        store(args.engine, result.figures, args.save)
    out = sys.stderr if args.json else sys.stdout
    print(f"\n{table(result.head, result.rows)}\n", file=out, flush=True)
    if args.json:
        about = {"benchmark": args.name, "engine": args.engine, "quick": args.quick}
        print(json.dumps({**about, **result.figures}))


if __name__ == "__main__":
    main()
