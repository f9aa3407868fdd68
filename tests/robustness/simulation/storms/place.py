"""A place for a replica: a host, and one process after another on it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from lockfast.port import Engine
from lockfast.service.server import DRAINING
from tests.robustness.simulation.storms.gate import Gate, Process
from tests.robustness.simulation.storms.machine import Machine, Time
from tests.robustness.simulation.storms.network import RETRIED, End, Network

LOOK = 1.0  # seconds between two looks whether a replica is back
STARTING = 1.0  # seconds until another process accepts connections
WRITING = 0.1  # seconds in which a process that ends writes what is left


class Place:
    """One of the replicas that clients know."""

    def __init__(
        self,
        time: Time,
        number: int,
        make: Callable[[Machine], Engine],
        network: Network,
        stands: int,
    ) -> None:
        self.name = f"replica{number}"
        self.process: Process | None = None
        self._time = time
        self._make = make
        self._network = network
        self._stands = stands
        self._silent = False
        """Whether the host is gone too, so that nobody says that there is no process."""
        self._draining: asyncio.Task[None] | None = None
        self.start()

    def start(self) -> None:
        """Start a process."""
        if self.process is None:
            self._silent = False
            machine = Machine.new(self._time, self.name)
            self.process = Process(machine, self._make, self._stands)

    def kill(self, *, silent: bool = False) -> None:
        """End the process. Its host resets all connections, unless it is gone too."""
        process, self.process = self.process, None
        self._silent = self._silent or silent
        if process is None:
            return
        process.machine.kill()
        process.leave()
        if not silent:
            for end in process.ends:
                end.peer.reset()

    def drain(self, then: Callable[[], object]) -> None:
        """Send all clients away, end, and start another process. Then call `then`."""
        process = self.process
        if process is not None:
            process.machine.call_soon(self._leave, process)
        self._time.at(self._time.now + LOOK, self._look, process, then)

    def _leave(self, process: Process) -> None:
        async def leave() -> None:
            await process.replica.drain(DRAINING + process.replica.load.spread())
            await process.replica.close()
            process.machine.call_later(WRITING, self._ended, process)

        self._draining = process.machine.create_task(leave())

    def _ended(self, process: Process) -> None:
        if self.process is process:
            self.kill()
            self._time.at(self._time.now + STARTING, self.start)

    def _look(self, before: Process | None, then: Callable[[], object]) -> None:
        """Look whether another process runs."""
        if self.process in {None, before}:
            self._time.at(self._time.now + LOOK, self._look, before, then)
        else:
            then()

    async def connect(
        self, fleet: Machine, rack: int, make: Callable[[], asyncio.Protocol]
    ) -> tuple[asyncio.Transport, asyncio.Protocol]:
        """Connect a client."""
        time, network = self._time, self._network
        pause = RETRIED
        while True:
            arrives = network.arrival(time.now, rack, RETRIED)
            await asyncio.sleep(arrives - time.now)
            process = self.process
            if process is None and not self._silent:
                raise ConnectionRefusedError(f"{self.name} is down")
            if process is not None and not process.crowded:
                break
            await asyncio.sleep(pause)  # the system sends it again
            pause *= 2.0
        protocol = make()
        mine, other = End(network, fleet, rack), End(network, process.machine, rack)
        mine.peer, other.peer = other, mine
        mine.protocol, other.protocol = protocol, Gate(process, other)
        protocol.connection_made(mine)
        return mine, protocol
