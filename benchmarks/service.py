"""Clients of the service, against clients that connect to the engine: pairs, and what they cost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import NamedTuple
from urllib.parse import urlsplit

from benchmarks import handoff
from benchmarks.echo import TURN, Echo
from benchmarks.rounds import fitted, interleave, ratio
from benchmarks.stage import Result, Stage, cpu_of
from benchmarks.tasks import TASKS, tasks_of
from benchmarks.workers import answer, orders, two, worker
from lockfast import aio
from tests.servers import Replica

CLIENTS = {"etcd": 100}  # 200 on the others
PROCESSES = 4
TTL = 30.0
ESTABLISHED = "01"  # in /proc/net/tcp


class Pairs(NamedTuple):
    """One turn of many clients with one task each."""

    rate: float
    """Pairs per second."""
    engine_us: float
    """Microseconds of the engine's CPU for each pair."""
    replica_us: float


def run(stage: Stage) -> Result:
    side = stage.against
    clients = stage.count(CLIENTS.get(stage.engine, 200), 8)
    with (
        side.start() as server,
        Replica(server.url) as replica,
        asyncio.Runner() as runner,
        Echo(PROCESSES, clients) as echo,
        ExitStack() as stack,
    ):
        urls = {"direct": server.url, "service": replica.url}
        engine, ours = side.members(server), [replica.pid]
        stage.say("a hundred tasks of one client")
        tasks = {
            name: fitted(tasks_of(runner, stack, url), stage.pick(0.3, 0.05), TASKS)
            for name, url in urls.items()
        }
        of_tasks = interleave(tasks, stage.count(10, 2), stage.say)
        stage.say(f"{clients} clients with a task each, in {PROCESSES} processes")
        crowds = {
            name: [
                stack.enter_context(worker(_clients, url, clients // PROCESSES, number))
                for number in range(PROCESSES)
            ]
            for name, url in urls.items()
        }
        turns: dict[str, Callable[[], Pairs]] = {
            name: _turn(pipes, stage.pick(TURN, 0.2), engine, ours)
            for name, pipes in crowds.items()
        }
        connections = _connections(replica.pid, server.url)
        of_clients = interleave(turns, stage.count(10, 2), stage.say)
        stage.say("bare WebSocket echoes")
        echoes = [echo.turn(stage.pick(TURN, 0.2)) for _ in range(stage.count(10, 2))]
        stage.say("handoffs between two processes")
        handoffs = interleave(
            {
                name: handoff.turn_of(
                    stack.enter_context(two(handoff.in_a_task, url)),
                    stage.pick(0.6, 0.15),
                    handoff.handoffs,
                )
                for name, url in urls.items()
            },
            stage.count(10, 2),
            stage.say,
        )
    pairs = {
        name: Pairs(*(median(values) for values in zip(*found, strict=True)))
        for name, found in of_clients.items()
    }
    gaps = {name: handoff.times_of(rounds)["p50_us"] for name, rounds in handoffs.items()}
    figures = {
        "tasks_ratio_to_direct": ratio(of_tasks["service"], of_tasks["direct"]),
        "clients_ratio_to_direct": _share(of_clients, lambda turn: turn.rate),
        "engine_cpu_ratio": _share(of_clients, lambda turn: turn.engine_us),
        "handoff_ratio_to_direct": handoff.compare(handoffs["service"], handoffs["direct"]),
        "replica_cpu_ratio_to_echo": pairs["service"].replica_us / (2 * median(echoes)),
    }
    return Result(
        figures={
            **{name: round(value, 3) for name, value in figures.items()},
            "engine_connections": connections,
            "clients": clients,
            "echo_us": round(median(echoes), 1),
            **{
                name: {"pairs_per_second": round(each.rate), "engine_us": round(each.engine_us, 1)}
                for name, each in pairs.items()
            },
        },
        head=(f"{clients} clients", "pairs/s", "engine µs", "replica µs", "handoff µs"),
        rows=[
            (
                name,
                f"{each.rate:,.0f}",
                f"{each.engine_us:.0f}",
                f"{each.replica_us:.0f}" if name == "service" else "",
                f"{gaps[name]:,.0f}",
            )
            for name, each in pairs.items()
        ],
    )


def _share(turns: dict[str, list[Pairs]], of: Callable[[Pairs], float]) -> float:
    """Compare round by round: neighbours in time had the same weather."""
    both = zip(turns["service"], turns["direct"], strict=True)
    return median(of(ours) / max(of(theirs), 1e-9) for ours, theirs in both)


def _turn(
    pipes: list[Connection], seconds: float, engine: Sequence[int], replica: list[int]
) -> Callable[[], Pairs]:
    def turn() -> Pairs:
        before = cpu_of(engine), cpu_of(replica)
        for pipe in pipes:
            pipe.send(seconds)
        count = sum(answer(pipe) for pipe in pipes)
        after = cpu_of(engine), cpu_of(replica)
        spent = [(b - a) / count * 1e6 for a, b in zip(before, after, strict=True)]
        return Pairs(count / seconds, *spent)

    return turn


def _connections(pid: int, url: str) -> int:
    """Count the TCP connections of a process to the engine."""
    ports = {f"{urlsplit(f'//{host}').port or 0:04X}" for host in _hosts(url)}
    sockets = set()
    for path in Path(f"/proc/{pid}/fd").iterdir():
        try:
            sockets.add(str(path.readlink()))
        except FileNotFoundError:  # closed meanwhile
            continue
    rows = [line.split() for line in Path("/proc/net/tcp").read_text("ascii").splitlines()[1:]]
    return sum(
        row[3] == ESTABLISHED
        and row[2].partition(":")[2] in ports
        and f"socket:[{row[9]}]" in sockets
        for row in rows
    )


def _hosts(url: str) -> list[str]:
    return url.partition("://")[2].partition("/")[0].rpartition("@")[2].split(",")


# --- what the processes do ----------------------------------------------------------------------


def _clients(pipe: Connection, url: str, count: int, number: int) -> None:
    asyncio.run(_take_turns(pipe, url, count, number))


async def _take_turns(pipe: Connection, url: str, count: int, number: int) -> None:
    clients = [aio.connect(url) for _ in range(count)]
    locks = [
        client.lock(f"client {number} {place}", ttl=TTL) for place, client in enumerate(clients)
    ]
    for lock in locks:  # what has to be opened is opened here
        await (await lock.acquire()).release()
    commands = orders(pipe)
    while (seconds := await asyncio.to_thread(next, commands, None)) is not None:
        end = time.monotonic() + seconds
        pipe.send(sum(await asyncio.gather(*(_loop(lock, end) for lock in locks))))
    for client in clients:
        await client.close()


async def _loop(lock: aio.AsyncLock, end: float) -> int:
    count = 0
    while time.monotonic() < end:
        lease = await lock.acquire()
        await lease.release()
        count += 1
    return count
