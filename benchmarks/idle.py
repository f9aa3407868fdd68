"""Ten thousand connections to the service with a lease each: what is lost, and what that costs."""

from __future__ import annotations

import asyncio
import gc
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

from benchmarks.stage import Result, Stage, cpu_of
from benchmarks.workers import Main, all_do, orders, worker
from lockfast import State, aio
from lockfast.engines import opener
from lockfast.port import PORT, Engine
from lockfast.runtime.aio import Aio
from lockfast.runtime.threads import Threads
from lockfast.url import Target
from tests.servers import Replica

PROCESSES = 4
DIRECT = 200  # clients that connect to the engine, to compare
# Connections that a process opens at the same time. 200 backends of PostgreSQL that start together
# keep two cores busy for longer than the short ttl: most leases were lost before the measurement.
AT_ONCE, DIRECT_AT_ONCE = 50, 2
PATIENCE = 600.0  # seconds
BEATS = 3  # renewals of a lease in a ttl


class Kept(NamedTuple):
    """What the clients saw, and what the engine and the replica have spent meanwhile."""

    lost: int
    engine: float
    replica: float
    memory: float
    """KiB that the replica has taken, for each connection."""


def run(stage: Stage) -> Result:
    side = stage.against
    connections = stage.count(10_000, 40)
    ttl, seconds = stage.pick(30.0, 3.0), stage.pick(90.0, 4.5)
    # A tenth of the ttl, so that few direct clients renew as often as a twentieth of the others.
    short = stage.pick(3.0, 1.5)
    with side.start() as server, Replica(server.url) as replica:
        many_files(replica.pid, 2 * connections)
        engine = side.members(server)
        stage.say(f"{connections:,} connections, held for {seconds:g} s")
        ours = _held(
            stage, Holding(replica.url, connections, ttl, seconds, AT_ONCE), engine, replica.pid
        )
        direct = stage.count(DIRECT, 8)
        stage.say(f"{direct} direct clients, held for {seconds:g} s")
        holding = Holding(server.url, direct, short, seconds, DIRECT_AT_ONCE)
        theirs = _held(stage, holding, engine, replica.pid)
    per_renewal = {
        "service": ours.engine / (connections * seconds / ttl * BEATS) * 1e6,
        "direct": theirs.engine / (direct * seconds / short * BEATS) * 1e6,
    }
    share = per_renewal["service"] / max(per_renewal["direct"], 1e-9)
    return Result(
        figures={
            "lost": ours.lost,
            "replica_cpu": round(ours.replica / seconds, 4),
            "kb_per_connection": round(ours.memory, 1),
            "engine_cpu_per_renewal_ratio": round(share, 3),
            "engine_cpu": round(ours.engine / seconds, 4),
            "engine_us_per_renewal": {k: round(v, 1) for k, v in per_renewal.items()},
            "connections": connections,
            "direct_clients": direct,
            "direct_lost": theirs.lost,
            "seconds": seconds,
        },
        head=("", "leases", "lost", "engine µs/renewal", "replica, of a core", "KiB each"),
        rows=[
            (
                "service",
                f"{connections:,}",
                str(ours.lost),
                f"{per_renewal['service']:.1f}",
                f"{ours.replica / seconds:.3f}",
                f"{ours.memory:.1f}",
            ),
            ("direct", f"{direct:,}", str(theirs.lost), f"{per_renewal['direct']:.1f}", "", ""),
        ],
    )


class Holding(NamedTuple):
    """What is held: a lease of this ttl in each of so many clients."""

    url: str
    clients: int
    ttl: float
    seconds: float
    at_once: int


def _held(stage: Stage, holding: Holding, engine: Sequence[int], replica: int) -> Kept:
    """Hold the leases, and measure meanwhile."""
    count = holding.clients
    before = memory_of(replica)
    with held(holding) as lost:
        stage.say(f"{count:,} leases were acquired")
        memory = (memory_of(replica) - before) / count
        spent = cpu_of(engine), cpu_of([replica])
        time.sleep(holding.seconds)
        engine_cpu = cpu_of(engine) - spent[0]
        replica_cpu = cpu_of([replica]) - spent[1]
        return Kept(lost(), engine_cpu, replica_cpu, memory)


@contextmanager
def held(holding: Holding) -> Iterator[Callable[[], int]]:
    """Have processes acquire the leases, and give what counts those that were lost."""
    main: Main = _holder
    with ExitStack() as stack:
        pipes = [stack.enter_context(worker(main, holding, number)) for number in range(PROCESSES)]
        all_do(pipes, "acquire", PATIENCE)
        yield lambda: sum(all_do(pipes, "count", PATIENCE))
        for pipe in pipes:  # so that all of them close their clients at the same time
            pipe.close()


def memory_of(pid: int) -> int:
    """Return the resident memory of a process in KiB."""
    lines = Path(f"/proc/{pid}/status").read_text("ascii", errors="replace").splitlines()
    (line,) = [each for each in lines if each.startswith("VmRSS:")]
    return int(line.split()[1])


def many_files(pid: int, wanted: int) -> None:
    """Let a process open many connections."""
    _, most = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (min(max(wanted, 1024), most), most))


class OneOfMany:
    """Makes engines for a process that stands for thousands, without the thread that renews leases
    while the event loop is blocked: so many threads would all wake when the process is late.
    """

    port = PORT

    def __call__(self, target: Target | None, runtime: Threads | Aio, /) -> Engine:
        """Make the engine for a URL."""
        assert target is not None  # each of these clients has a URL
        engine = opener(target, runtime)()
        vars(engine).pop("stand_in", None)
        return engine


# --- what the processes do ----------------------------------------------------------------------


def _holder(pipe: Connection, holding: Holding, number: int) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    # This process stands for thousands. Their garbage is collected at one moment here, and all of
    # them would stand still for a second, on connections that are just being made.
    gc.disable()
    asyncio.run(_hold(pipe, holding, number))


async def _hold(pipe: Connection, holding: Holding, number: int) -> None:
    count = holding.clients // PROCESSES
    clients = [aio.connect(holding.url, engine=OneOfMany()) for _ in range(count)]
    leases: list[aio.AsyncLease] = []
    places = iter(range(count))

    async def some() -> None:
        for place in places:
            lock = clients[place].lock(f"idle {number} {place}", ttl=holding.ttl)
            leases.append(await lock.acquire(timeout=60))

    commands = orders(pipe)
    while (command := await asyncio.to_thread(next, commands, None)) is not None:
        if command == "acquire":
            await asyncio.gather(*(some() for _ in range(holding.at_once)))
            pipe.send(len(leases))
        else:
            pipe.send(sum(lease.state is not State.HELD for lease in leases))
    for client in clients:
        await client.close()
