"""A run: one scenario with one seed. Site, register and workers, the plan, the end, the verdict."""

from __future__ import annotations

import json
import shutil
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.previous.version import VERSIONS, Version
from tests.robustness.crowd import Crowd
from tests.robustness.faults import Stage, breaks
from tests.robustness.history import LAPSE, Kind, Outcome, Record, gathered, sizes
from tests.robustness.moments import moments
from tests.robustness.plan import Plan, draw
from tests.robustness.player import Player
from tests.robustness.scenario import Scenario
from tests.robustness.setups import DEFAULT, Setup
from tests.robustness.sites import SITES, Site
from tests.robustness.stamp import today, version
from tests.robustness.traffic.clock import now
from tests.robustness.traffic.node import NodeWorker, build
from tests.robustness.traffic.process import Task, Worker
from tests.robustness.traffic.recorder import Recorder
from tests.robustness.traffic.register import Entry, entries, key
from tests.robustness.verdict import Logs, judge, unserved
from tests.servers.clock import ServerClock
from tests.servers.node import rows
from tests.servers.process import Server, ServerError
from tests.servers.redis import Redis
from tests.stolen import Watch

_SOCKET = "register.sock"
_SETTLE = 2.0  # seconds beyond the ttl for which they go on working after the faults
_ROUNDS = 4  # of plans, to make up for what was missed
_PATIENCE = 40.0  # seconds for the workers to begin, and to end in good order


class Run:
    """One run. Its folder has the histories, the logs of workers and servers, and result.json."""

    def __init__(  # noqa: PLR0913  # what makes one run another
        self,
        scenario: Scenario,
        seed: int,
        seconds: float,
        out: Path,
        *,
        setup: Setup = DEFAULT,
        say: Callable[[str], None] = print,
    ) -> None:
        self.setup = setup
        self.scenario = scenario
        self.seed = seed
        self.seconds = seconds
        self.out = out.resolve()
        self._say = say
        self._histories = self.out / "history"
        self._logs = self.out / "logs"
        self._violations: list[dict[str, str]] = []
        self._pairs = 0

    def run(self) -> dict[str, Any]:
        """Run, judge, and write result.json."""
        self._histories.mkdir(parents=True)
        self._logs.mkdir()
        if self.scenario.node:
            build()
        began, watch = time.monotonic(), Watch()
        # A socket in the file system is in reach from every network, also a broken one.
        site = SITES[self.scenario.site]()
        site.previous = VERSIONS.get(self.scenario.previous)
        site.access = self.setup.access
        crowd = Crowd()
        with crowd, site, Redis(config={"unixsocket": _SOCKET}) as register:
            servers = site.version()
            if self.scenario.previous:
                VERSIONS[self.scenario.previous].install(site.url)
            workers = self._workers(site, f"unix://{register.data_path / _SOCKET}")
            try:
                healed = self._traffic(site, workers)
            finally:
                for server in [*workers, *site.servers, *site.service]:
                    self._keep_log(server)
                for worker in workers:
                    worker.close()
            logs = {fenced: read_logs(register, fenced=fenced) for fenced in (True, False)}
        busy = round(crowd.share, 3)
        self._say(f"checking; the machine was too busy in {busy:.0%} of the time")
        history = gathered(self._histories)
        granted = _granted(history, workers)
        self._broke(
            "worker", [f"{mode}: nothing was granted" for mode in granted if not granted[mode]]
        )
        said = judge(self.scenario, history, logs[True], logs[False], healed, busy=crowd.spans)
        said["violations"] = self._violations + said["violations"]
        result = {
            "scenario": self.scenario.name,
            "engine": SITES[self.scenario.site].engine,
            "site": self.scenario.site,
            "setup": self.setup.name,
            "servers": servers,
            "seed": self.seed,
            "seconds": round(time.monotonic() - began, 1),
            "ttl": self.scenario.ttl,
            "workers": self.scenario.workers + self.scenario.node,
            "granted": granted,
            "previous": self.scenario.previous,
            "pairs": self._pairs,
            "stolen": round(watch.share(), 3),
            "busy": busy,
            **said,
            "control": None,
            "caught": None,
            "version": version(),
            "date": today(),
        }
        for moment in moments(history):
            moment.write(self.out / "moments")
        (self.out / "result.json").write_text(json.dumps(result, indent=1) + "\n", "utf-8")
        return result

    def _workers(self, site: Site, register: str) -> list[Worker]:
        scenario = self.scenario
        task = Task(
            *(site.entry, register, scenario.workloads, scenario.ttl, self.seed, scenario.hands)
        )
        other = VERSIONS.get(scenario.previous)
        others = range(scenario.workers, scenario.workers + scenario.node)
        return [
            *(
                NodeWorker(number, task, self._histories, home=site.client_host(number))
                for number in others
            ),
            *self._python_workers(site, task, other),
        ]

    def _python_workers(self, site: Site, task: Task, other: Version | None) -> list[Worker]:
        return [
            Worker(
                *(number, ("threads", "asyncio")[number % 2], task, self._histories),
                env=ServerClock().env,
                home=site.client_host(number),
                version=other if number % 4 in {1, 2} else None,
            )
            for number in range(self.scenario.workers)
        ]

    def _traffic(self, site: Site, workers: list[Worker]) -> float:
        """Let them work through the plan; tell when everything was whole again."""
        scenario = self.scenario
        self._say(f"{site.name} serves; {len(workers)} workers start")
        with ThreadPoolExecutor(len(workers)) as pool:
            list(pool.map(lambda worker: worker.start(_PATIENCE), workers))
        self._play(Stage(site, workers, scenario.ttl))
        self._broke(
            "worker", [f"{worker.name} ended by itself" for worker in workers if not worker.alive]
        )
        dead = [replica for replica in site.service if not replica.alive]
        self._broke("replica", [f"{each.address} ended by itself: {each.log()}" for each in dead])
        try:
            site.heal()
        except ServerError as error:
            self._broke("harness", [f"the site could not be healed: {error}"])
        # The last to be killed may only just be beginning: it would not know what SIGTERM means.
        with ThreadPoolExecutor(len(workers)) as pool:
            list(pool.map(lambda worker: worker.start(_PATIENCE), workers))
        before, healed = sizes(self._histories), now()
        self._say("healed")
        # Long enough for whatever a dead holder has left to end, and for waiters to be let in.
        time.sleep(scenario.ttl + _SETTLE)
        while now() < healed + scenario.ttl + scenario.delta:
            if not unserved(gathered(self._histories, before), healed):
                break
            time.sleep(_SETTLE)  # a busy machine; what is late beyond its bound will be told
        with ThreadPoolExecutor(len(workers)) as pool:
            ended = list(pool.map(lambda worker: worker.end(_PATIENCE), workers))
        self._broke("worker", [told for told in ended if told])
        self._say("workers have ended")
        self._ask_after_lapses(site)
        return healed

    def _ask_after_lapses(self, site: Site) -> None:
        """Record what the engine lost by itself as a fault, from when it may have done harm."""
        try:
            lapse = site.lapse()
        except ServerError as error:
            self._broke("harness", [str(error)])
            return
        if lapse is not None:
            self._say(f"{LAPSE}: {lapse.said}; all that was built on it since then is excused")
            recorder = Recorder(self._histories / "faults.jsonl", "faults")
            recorder.add(
                Record(
                    *("faults", Kind.FAULT, LAPSE, lapse.since, now(), Outcome.OK),
                    value=lapse.said,
                    extra={"breaks": "data"},
                )
            )
            recorder.close()

    def _play(self, stage: Stage) -> None:
        """Play a plan; then what was missed, because whom it was for was dead just then."""
        scenario, site = self.scenario, stage.site
        recorder = Recorder(self._histories / "faults.jsonl", "faults")

        def record(fault: Record) -> None:
            recorder.add(fault)
            self._say(f"{fault.name}, {fault.ended - fault.began:.1f} s: {fault.value}")

        def wanted(kind: str) -> int:
            return scenario.more.get(kind, scenario.each)

        player = Player(stage, record)
        other = VERSIONS.get(scenario.previous)
        without = {*self.setup.without, *(other.without if other else ())}
        kinds = sorted({*(scenario.faults or site.kinds)} - without)
        # See the plan: nothing may be lost once a clock was moved.
        moved = "clock-server" in kinds
        again = [kind for kind in kinds if not (moved and "data" in breaks(kind, site))]
        each = scenario.each
        whole = True
        if scenario.first:
            before = draw(
                *(self.seed, site),
                ttl=scenario.ttl,
                kinds=scenario.first,
                each=2 * each,
                paired=0.0,
            )
            whole = self._follow(before, player)
        player.counts.clear()
        for number in range(_ROUNDS if whole else 0):
            plan = draw(
                # A seed that no other run has for its first.
                *(self.seed + number * 1_000_000, site),
                ttl=scenario.ttl,
                kinds=kinds,
                each=each,
                seconds=0.0 if number else self.seconds,
            )
            if not self._follow(plan, player):
                break
            short = {
                kind: missing
                for kind in again
                if (missing := wanted(kind) - player.counts.get(kind, 0)) > 0
            }
            kinds, each = list(short), max(short.values(), default=0)
            if not kinds:
                break
        recorder.close()

    def _follow(self, plan: Plan, player: Player) -> bool:
        """Play a plan; tell whether all was undone."""
        with (self.out / "plan.txt").open("a", encoding="utf-8") as file:
            file.write(f"{plan}\n")
        self._say(f"{len(plan.steps)} steps of faults, about {plan.seconds:.0f} s")
        self._pairs += plan.pairs
        try:
            player.play(plan)
        except Exception as error:  # noqa: BLE001 - a violation; the run goes on to its end
            self._broke("harness", [f"a fault could not be undone: {error!r}"])
            return False
        return True

    def _broke(self, checker: str, told: list[str]) -> None:
        self._violations += [{"checker": checker, "said": said} for said in told]

    def _keep_log(self, server: Server) -> None:
        if server.log_path.exists():
            shutil.copy(server.log_path, self._logs / f"{server.folder.name}.log")


def read_logs(register: Redis, *, fenced: bool) -> Logs:
    """Read all logs of a register."""
    prefix = key("", fenced=fenced)
    found: dict[str, list[Entry]] = {}
    with register.connect() as connection:
        for word in rows(connection.command("KEYS", f"{prefix}*")):
            assert isinstance(word, bytes)
            words = rows(connection.command("LRANGE", word, 0, -1))
            found[word.decode().removeprefix(prefix)] = entries(
                [each for each in words if isinstance(each, bytes)]
            )
    return found


def _granted(history: list[Record], workers: list[Worker]) -> dict[str, int]:
    """Tell how often each kind of worker was granted a lock."""
    counts = Counter(
        record.client.partition(".")[0]
        for record in history
        if record.kind is Kind.ACQUIRE and record.outcome is Outcome.OK
    )
    found = dict.fromkeys((worker.mode for worker in workers), 0)
    for worker in workers:
        found[worker.mode] += counts[worker.name]
    return found
