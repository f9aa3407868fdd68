"""The engine's side: the reference model, in a process that pauses, restarts and forgets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from lockfast.core.queue import Queues
from lockfast.errors import KindMismatch
from lockfast.port import EVERYONE, Ask, Entry, Standing, Wake
from tests.robustness.simulation.network import Network
from tests.robustness.simulation.plan import Plan
from tests.robustness.simulation.witness import Witness
from tests.robustness.simulation.world import Process, World

EPOCH = 1.7e9  # what the engine's clock says at the beginning
HOUR = 3600.0

Result = Sequence[Standing | Entry | Exception | bool | int | None]
Answer = Callable[[Result | None, float], None]
"""Takes the result (None: nothing was done) and the engine's time."""
Push = Callable[[Wake], object]


class Request(NamedTuple):
    """What a client asks of the engine."""

    kind: str
    asks: tuple[Ask, ...] = ()
    doubt: bool = False
    name: str = ""

    def __str__(self) -> str:
        """Show it for the trace."""
        about = " ".join(f"{ask.shape.name}/{ask.id[20:]}" for ask in self.asks) or self.name
        return f"{self.kind} {about}{' in doubt' if self.doubt else ''}"


class Server:
    """One engine."""

    def __init__(self, world: World, network: Network, witness: Witness, plan: Plan) -> None:
        self.process = Process.new(world, "engine")
        self.world = world
        self.network = network
        self.witness = witness
        self.queues = Queues()
        self._listeners: dict[str, dict[Process, Push]] = {}
        """Where wakes go, by the client that they are for: to it, or to replicas."""
        self.up = True
        self._shift = 0.0
        if plan.ahead:
            self.queues.last = int((EPOCH + HOUR) * 1e6)
        self._replica = _copy(self.queues)

    def clock(self) -> float:
        """Tell the engine's time."""
        return EPOCH + self.world.now + self._shift

    def hear(self, prefix: str, process: Process, push: Push) -> None:
        """Send the wakes of a client to a process too."""
        self._listeners.setdefault(prefix, {})[process] = push

    def request(
        self,
        client: Process,
        request: Request,
        answer: Answer | None = None,
        cut: Callable[[], object] | None = None,
    ) -> None:
        """Send a request over the network; the answer comes the same way, unless it is cut."""
        broken = None if cut is None else lambda: client.call_later(0.01, cut)

        def reply(result: Result | None) -> None:
            if answer is not None:
                told = self.clock()
                said = f"answer to {request}" if self.world.tracing else ""
                self.network.send(client, said, lambda: answer(result, told), cut=broken)

        self.network.send(
            self.process,
            str(request) if self.world.tracing else "",
            lambda: reply(self._handle(client, request)),
            once=request.kind == "claim",
            cut=broken,
        )

    def _handle(self, client: Process, request: Request) -> Result | None:
        if not self.up:
            return None
        now, queues = self.clock(), self.queues
        self.witness.told(request.asks)
        present = self.witness.before(queues, request)
        result: list[Standing | Entry | Exception | bool | int | None] = []
        if request.kind == "claim":
            result = [_claimed(queues, ask, now) for ask in request.asks]
            self.witness.seen["claims made together"] += len(result) if len(result) > 1 else 0
        elif request.kind == "renew":
            result = [queues.renew(ask, now) for ask in request.asks]
        elif request.kind == "resign":
            result = [queues.resign(ask, now, doubt=request.doubt) for ask in request.asks]
        elif request.kind == "inspect":
            result = [*queues.entries(request.name, now)]
        elif request.kind == "mint":  # only a mutant asks for it
            queues.last = max(queues.last + 1, int(now * 1e6))
            result = [queues.last]
            self.witness.reminted(request.asks[0], queues.last)
        if self.world.tracing:
            self.world.say("engine", f"{client.name}: {request} -> {_short(result)}")
        self.witness.after(queues, request, present)
        wakes, queues.wakes = queues.wakes, []
        for wake in wakes:
            self._push(wake.id[:22], wake)
        return result

    def _push(self, prefix: str, wake: Wake) -> None:
        for process, push in self._listeners[prefix].items():
            self.network.send(process, f"push {wake.id[20:]}", partial(push, wake))

    # --- faults -------------------------------------------------------------------------------

    def pause(self, seconds: float) -> None:
        """Stop the process; what is sent to it meanwhile is applied when it goes on."""
        self.process.frozen = max(self.process.frozen, self.world.now + seconds)

    def restart(self, seconds: float) -> None:
        """Be away, and come back with all data; connections break, so pushes may be missed."""
        self.up = False
        self.process.call_later(seconds, self._return)

    def _return(self) -> None:
        self.up = True
        everyone = {
            process: push for each in self._listeners.values() for process, push in each.items()
        }
        for process, push in everyone.items():
            process.call_later(0.02, push, EVERYONE)

    def wipe(self, seconds: float) -> None:
        """Come back with nothing."""
        self._replica = Queues()
        self.failover(seconds)

    def replicate(self) -> None:
        """Take a copy: what a replica that lags would have."""
        self._replica = _copy(self.queues)

    def failover(self, seconds: float) -> None:
        """Come back as the replica."""
        self.witness.forget(self.queues)
        self.queues = _copy(self._replica)
        self.witness.shaken(self.queues, self.clock())
        self.restart(seconds)

    def back(self, seconds: float) -> None:
        """Let the clock go back."""
        self._shift -= seconds
        self.witness.shaken(self.queues, self.clock())


def _copy(queues: Queues) -> Queues:
    twin = Queues()
    twin.last = queues.last
    twin._tombs = dict(queues._tombs)
    twin._queues = {name: [replace(m) for m in queue] for name, queue in queues._queues.items()}
    return twin


def _short(result: Result) -> str:
    said = []
    for each in result:
        if isinstance(each, Standing):
            state = "granted" if each.granted else f"waits behind {each.ahead}"
            said.append(f"{each.ticket % 10**9} {state}, {each.left:.3f} s left")
        else:
            said.append(str(each))
    return "; ".join(said)


def _claimed(queues: Queues, ask: Ask, now: float) -> Standing | KindMismatch | None:
    try:
        return queues.claim(ask, now)
    except KindMismatch as error:
        return error
