"""A player: makes the faults of a plan happen, and records each."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from random import Random

from tests.robustness.faults import FAULTS, Damage, Stage, breaks
from tests.robustness.faults.fault import Order
from tests.robustness.history import Kind, Outcome, Record
from tests.robustness.plan import Act, Plan
from tests.servers.process import ServerError

_AGAIN = 0.2


class Player:
    """Plays plans on a stage. What it records has the fault's kind as its name."""

    def __init__(
        self, stage: Stage, record: Callable[[Record], None], *, patience: float = 10.0
    ) -> None:
        """Hand every fault that has ended to `record`, from any thread, one at a time.

        A fault that cannot be done just now is tried again for as long as the patience lasts.
        """
        self.stage = stage
        self.counts: dict[str, int] = {}
        """How many of each kind really happened."""
        self._record = record
        self._patience = patience
        self._lock = threading.Lock()
        self._stopped = threading.Event()

    def play(self, plan: Plan) -> None:
        """Play it to its end, or to stop(). An undoing that failed is raised."""
        began = time.monotonic()
        with ThreadPoolExecutor(max_workers=4, thread_name_prefix="faults") as pool:
            for step in plan.steps:
                if self._stopped.wait(max(0.0, began + step.at - time.monotonic())):
                    return
                for done in [pool.submit(self._act, act) for act in step.acts]:
                    done.result()

    def stop(self) -> None:
        """Let the present step end, and begin no other."""
        self._stopped.set()

    def _act(self, act: Act) -> None:
        time.sleep(act.after)
        began = time.monotonic()
        rng = Random(act.seed)  # noqa: S311  # it must replay, not be secret
        order = Order(act.seconds, act.turn, rng)
        try:
            damage = self._begin(act.kind, order)
        except (ServerError, OSError) as error:
            self._note(act, began, Outcome.NO, str(error))
            return
        time.sleep(max(0.0, began + act.seconds - time.monotonic()))
        damage.undo()
        with self._lock:
            self.counts[act.kind] = self.counts.get(act.kind, 0) + 1
        self._note(act, began, Outcome.OK, damage.said)

    def _begin(self, kind: str, order: Order) -> Damage:
        """Begin it, in a while if that cannot be done just now: nobody leads, or none runs."""
        deadline = time.monotonic() + self._patience
        while True:
            try:
                return FAULTS[kind].begin(self.stage, order)
            except (ServerError, OSError):
                if time.monotonic() > deadline:
                    raise
                time.sleep(_AGAIN)

    def _note(self, act: Act, began: float, outcome: Outcome, said: str) -> None:
        broken = ",".join(sorted(breaks(act.kind, self.stage.site)))
        after = self.stage.site.aftermath.get(act.kind, 0.0)
        with self._lock:
            self._record(
                Record(
                    client="faults",
                    kind=Kind.FAULT,
                    name=act.kind,
                    began=began,
                    ended=time.monotonic(),
                    outcome=outcome,
                    value=said,
                    extra={
                        "breaks": broken,
                        "asked": f"{act.seconds:.3f}",
                        **({"aftermath": f"{after:g}"} if after else {}),
                    },
                )
            )
