"""A trial: a site, workers with a mutant in them, and faults until a checker has said what it must.

Overlaps of belief are never excused here: each control strikes only with faults that excuse none.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.robustness.history import Kind, Outcome, Record, gathered
from tests.robustness.run import read_logs
from tests.robustness.sites import SITES, Site
from tests.robustness.traffic.clock import now
from tests.robustness.traffic.process import MUTANT, Task, Worker
from tests.robustness.verdict import Logs
from tests.servers.process import wait_until
from tests.servers.proxy import Proxy
from tests.servers.redis import Redis

SEED = 1
SOCKET = "register.sock"
START = 60.0  # seconds for a worker to begin, on a machine that does much else


@dataclass(frozen=True)
class Control:
    """A mutant, the fault that reveals it, and who must say so."""

    mutant: str
    """Nothing, where the setting itself is the control."""
    checker: str
    look: Callable[[Trial], list[str]]
    strike: Callable[[Trial], None]
    """One round of faults; repeated until the checker says it, or the time is over."""
    fault: str
    """The same in words."""
    given: tuple[str, ...] = ()
    """What is switched in besides: it brings about what the mutant is to be met with."""
    site: str = "redis"
    workloads: tuple[str, ...] = ("queue",)
    ttl: float = 0.6
    hands: int = 4
    modes: tuple[str, ...] = ("threads", "asyncio")

    @property
    def name(self) -> str:
        return self.mutant or self.checker


class Trial:
    """One trial. `with` starts everything, and ends it."""

    def __init__(self, control: Control, *, mutated: bool = True) -> None:
        """Without the mutant, the checker must say nothing."""
        self.control = control
        self.ttl = control.ttl
        self.round = 0
        self._mutants = (*control.given, *([control.mutant] if mutated else []))
        self._stack = ExitStack()
        self.site: Site
        self.workers: list[Worker]

    def __enter__(self) -> Self:
        stack, control = self._stack, self.control
        try:
            self._folder = Path(stack.enter_context(tempfile.TemporaryDirectory("-lockfast")))
            self.site = stack.enter_context(SITES[control.site]())
            self._register = stack.enter_context(Redis(config={"unixsocket": SOCKET}))
            url = f"unix://{self._register.data_path / SOCKET}"
            task = Task(self.site.url, url, control.workloads, self.ttl, SEED, control.hands)
            self.workers = [
                Worker(
                    *(number, mode, task, self._folder),
                    env={MUTANT: ";".join(filter(None, self._mutants))},
                    home=self.site.client_host(number),
                )
                for number, mode in enumerate(control.modes)
            ]
            for worker in self.workers:
                stack.callback(worker.close)
                stack.callback(worker.kill)
                worker.launch()
            for worker in self.workers:
                worker.start(START)
        except BaseException:
            stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    # --- what a strike needs --------------------------------------------------------------------

    @property
    def proxy(self) -> Proxy:
        return self.site.proxies[0]

    @property
    def victim(self) -> Worker:
        """Each in turn."""
        return self.workers[self.round % len(self.workers)]

    def granted(self) -> Worker:
        """Wait until somebody is granted something, and tell who."""
        began = now()
        wait_until(lambda: bool(self._grants(began)), "something is granted", START)
        client = self._grants(began)[0].client
        return next(worker for worker in self.workers if worker.client == client)

    def _grants(self, after: float) -> list[Record]:
        return [
            record
            for record in self.history()
            if record.kind is Kind.ACQUIRE and record.outcome is Outcome.OK and record.ended > after
        ]

    def prefix(self, worker: Worker) -> str:
        """Tell what the ids of a worker's claims begin with."""
        wait_until(lambda: any(self._ids(worker)), f"{worker.name} was granted something", START)
        return next(self._ids(worker))[:22]

    def _ids(self, worker: Worker) -> Iterator[str]:
        return (r.id for r in self.history() if r.client == worker.client and r.id)

    def wait(self, ttls: float) -> None:
        time.sleep(ttls * self.ttl)

    # --- what a checker needs -------------------------------------------------------------------

    def history(self) -> list[Record]:
        """Give what is known, and no grant that was told after this began: the files are read one
        after another, and a grant in the last must not be read without the release in the first
        that made room for it.
        """
        before = now()
        return [
            record
            for record in gathered(self._folder)
            if record.kind is not Kind.ACQUIRE or record.ended <= before
        ]

    def logs(self, *, fenced: bool) -> Logs:
        return read_logs(self._register, fenced=fenced)

    # --- the trial ------------------------------------------------------------------------------

    def run(self, seconds: float) -> list[str]:
        """Strike until the checker says something; give what it said."""
        end = time.monotonic() + seconds
        while True:
            self.control.strike(self)
            self.round += 1
            said = self.control.look(self)
            if said or time.monotonic() > end:
                return said
            for worker in self.workers:
                if not worker.alive and self.control.checker != "orphans":
                    raise RuntimeError(f"{worker.name} ended by itself: {worker.log()}")
