"""The worker program: several hands at work until SIGTERM, then an end in good order."""

from __future__ import annotations

import argparse
import gc
import logging
import random
import signal
from pathlib import Path

import lockfast
from lockfast import aio
from lockfast.testing.harness import verbs
from lockfast.testing.harness.mode import MODES, Mode
from tests.robustness.traffic.bench import Bench
from tests.robustness.traffic.clock import now
from tests.robustness.traffic.recorder import Recorder
from tests.robustness.traffic.register import Register
from tests.robustness.traffic.workloads import WORKLOADS, Workload

_PATIENCE = 60.0  # seconds for the hands to end; the harness is less patient


class Stop:
    """Whether SIGTERM came."""

    def __init__(self) -> None:
        self.asked = False
        signal.signal(signal.SIGTERM, self._ask)
        # What a storm of signals does: finalizers run wherever the process is just then.
        signal.signal(signal.SIGUSR1, lambda *_: gc.collect(1))

    def _ask(self, *_: object) -> None:
        self.asked = True


async def _hand(workload: Workload, stop: Stop) -> None:
    while not stop.asked:
        await workload.once()


async def _work(mode: Mode, asked: argparse.Namespace, stop: Stop) -> None:
    recorder = Recorder(asked.history, asked.name)
    register = Register(asked.register, mode, recorder)
    client = (lockfast if mode.name == "threads" else aio).connect(asked.url)
    kinds = asked.workloads.split(",")
    jobs = []
    for number in range(asked.hands):
        kind = kinds[number % len(kinds)]
        dice = random.Random(f"{asked.seed} {asked.name} {number}")  # noqa: S311 - no secret
        bench = Bench(client, mode, recorder, register, asked.ttl, dice)
        jobs.append(mode.start(_hand(WORKLOADS[kind](kind, bench), stop)))
    # A hand that ends before it was asked to has met something that no hand should meet.
    while not stop.asked and not any(job.done() for job in jobs):
        await mode.sleep(0.02)
    stop.asked = True
    for job in jobs:
        await job.result(_PATIENCE)
    await verbs.close(client)
    await register.close()
    recorder.close()


class _Lines(logging.Formatter):
    """Lines with the time of the histories: the log's own clock may be moved."""

    def format(self, record: logging.LogRecord) -> str:
        return f"{now():.4f} {super().format(record)}"


def main() -> None:
    """Work."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Lines("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
    logging.getLogger("kazoo").setLevel(logging.INFO)  # it tells of its sessions
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True, help="the engine")
    parser.add_argument("--register", required=True, help="the resource's Redis")
    parser.add_argument("--workloads", required=True, help=",".join(WORKLOADS))
    parser.add_argument("--hands", type=int, default=8, help="operations at once (8)")
    parser.add_argument("--ttl", type=float, required=True)
    parser.add_argument("--seed", required=True)
    parser.add_argument("--name", required=True, help="what this client is called")
    parser.add_argument("--history", type=Path, required=True, help="the file to append to")
    parser.add_argument("--mode", choices=sorted(MODES), required=True)
    asked = parser.parse_args()
    stop = Stop()
    mode = MODES[asked.mode]()
    try:
        mode.run(_work(mode, asked, stop))
    finally:
        mode.close()


if __name__ == "__main__":
    main()
