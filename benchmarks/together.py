"""Ten free locks at once with lock_all, against ten single acquisitions: tens per second."""

from __future__ import annotations

import lockfast
from benchmarks.rounds import Work, cpu_us, fitted, interleave, rate, ratio
from benchmarks.stage import Result, Stage

TTL = 30.0
NAMES = [f"together:{number}" for number in range(10)]


def run(stage: Stage) -> Result:
    with stage.against.start() as server, lockfast.connect(server.url) as client:
        works = {"lock_all": _together(client), "singly": _singly(client)}
        turns = {name: fitted(work, stage.pick(0.2, 0.05)) for name, work in works.items()}
        results = interleave(turns, stage.count(30, 3), stage.say)
    rates = {name: round(rate(each), 1) for name, each in results.items()}
    cpus = {name: round(cpu_us(each), 1) for name, each in results.items()}
    share = round(ratio(results["lock_all"], results["singly"]), 3)
    return Result(
        figures={
            "ratio_to_singly": share,
            "names": len(NAMES),
            "per_second": rates,
            "cpu_us": cpus,
        },
        head=(f"{len(NAMES)} locks", "per second", "of singly", "CPU µs"),
        rows=[
            ("lock_all", f"{rates['lock_all']:,}", f"{share:.2f}", f"{cpus['lock_all']:.0f}"),
            ("singly", f"{rates['singly']:,}", "1.00", f"{cpus['singly']:.0f}"),
        ],
    )


def _together(client: lockfast.Client) -> Work:
    lock = client.lock_all(*NAMES, ttl=TTL)

    def work(count: int) -> None:
        for _ in range(count):
            lock.acquire().release()

    return work


def _singly(client: lockfast.Client) -> Work:
    locks = [client.lock(name, ttl=TTL) for name in NAMES]

    def work(count: int) -> None:
        for _ in range(count):
            leases = [lock.acquire() for lock in locks]
            for lease in leases:
                lease.release()

    return work
