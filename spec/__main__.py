"""Check the models: `python -m spec`, or some of them: `python -m spec Guard Redlock-ballot`."""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed

from spec.tlc import check, configurations


def main() -> int:
    """Run what was asked for; the exit status is 1 if anything came out otherwise than expected."""
    parser = argparse.ArgumentParser(prog="python -m spec", description=__doc__)
    parser.add_argument("names", nargs="*", help="beginnings of configurations; without any, all")
    parser.add_argument("--jobs", type=int, default=2, help="how many at once (2)")
    parser.add_argument("--large", action="store_true", help="also those that take minutes")
    parser.add_argument("--trace", action="store_true", help="show what TLC says: counterexamples")
    asked = parser.parse_args()
    chosen = [
        each
        for each in configurations()
        if not asked.names or each.path.stem.startswith(tuple(asked.names))
        if asked.large or not each.large
    ]
    if not chosen:
        parser.error("no configuration begins like that")
    surprises = []
    began = time.monotonic()
    with ThreadPoolExecutor(asked.jobs) as pool:
        running = {pool.submit(check, each): each for each in chosen}
        for done, future in enumerate(as_completed(running), 1):
            each, found = running[future], future.result()
            surprise = found.verdict != each.expected
            if surprise:
                surprises.append(each)
            print(
                f"[{done:{len(str(len(chosen)))}}/{len(chosen)}] {each.model:9}{each.name:34}"
                f"{each.expected:31}{'FOUND ' + found.verdict if surprise else 'as expected':14}"
                f"{found.states:8} states{found.seconds:6.1f} s",
                flush=True,
            )
            if surprise or asked.trace:
                print(found.output)
    print(f"{len(chosen)} checked in {time.monotonic() - began:.0f} s, {len(surprises)} surprises")
    return 1 if surprises else 0


sys.exit(main())
