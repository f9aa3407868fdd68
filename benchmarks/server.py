"""What a claim costs the server: redis-benchmark with 50 clients, against the smallest script."""

from __future__ import annotations

import statistics
import subprocess
from collections.abc import Callable, Sequence
from typing import NamedTuple

from benchmarks.overheard import NAME, Script, overhear
from benchmarks.rounds import interleave
from benchmarks.stage import Result, Stage
from tests.servers import Redis
from tests.servers.node import text

CLIENTS = 50
NAMES = 1_000_000_000  # so many that hardly ever a name comes twice
RANDOM = "__rand_int__"  # redis-benchmark writes 12 digits here, others at each place
SMALLEST = """
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return redis.call('INCR', KEYS[2])
end
"""
FILL = """
for i = 0, ARGV[2] - 1 do
  redis.call('SET', ARGV[1] .. string.format('%012d', i), ARGV[3], 'PX', 60000)
end
"""
QUEUE = 3  # the place of "stand in line" among the arguments of claim.lua


class Load(NamedTuple):
    """One run of redis-benchmark."""

    rate: float
    cpu_us: float
    """Of the server, per call."""


def run(stage: Stage) -> Result:
    calls = stage.count(20_000, 2_000)
    with stage.against.start() as server:
        turns = _turns(server, calls)
        results = interleave(turns, stage.count(16, 2), stage.say)
    rates = {name: round(_median(loads, "rate")) for name, loads in results.items()}
    cpus = {name: round(_median(loads, "cpu_us"), 2) for name, loads in results.items()}
    pairs = list(zip(results["claim"], results["smallest"], strict=True))
    queued = zip(results["claim, queued"], results["claim"], strict=True)
    return Result(
        figures={
            "ratio_to_smallest": round(statistics.median(a.rate / b.rate for a, b in pairs), 3),
            "cpu_ratio_to_smallest": round(
                statistics.median(a.cpu_us / b.cpu_us for a, b in pairs), 3
            ),
            "queued_cpu_ratio_to_claim": round(
                statistics.median(a.cpu_us / b.cpu_us for a, b in queued), 3
            ),
            "clients": CLIENTS,
            "requests_per_second": rates,
            "server_cpu_us_per_call": cpus,
        },
        head=(f"{CLIENTS} clients", "calls/s", "of smallest", "server CPU µs/call"),
        rows=[
            (name, f"{rates[name]:,}", f"{rates[name] / rates['smallest']:.2f}", f"{cpu:.1f}")
            for name, cpu in cpus.items()
        ],
    )


def _turns(server: Redis, calls: int) -> dict[str, Callable[[], Load]]:
    claim, resign = overhear(server, ttl=30.0)
    ident = claim.ident
    fresh = {ident: ident[:20] + RANDOM}
    free = claim.altered({NAME: RANDOM, **fresh})
    smallest = Script(
        digest=text(server.command("SCRIPT", "LOAD", SMALLEST)),
        keys=[free.keys[0], free.keys[1]],
        args=[free.args[0], free.args[1]],
    )
    refused = claim.altered(fresh)
    refused.args[QUEUE] = "0"

    def nothing() -> None:
        """Begin with an empty server."""

    def taken() -> None:
        server.command(*claim.words())

    def filled() -> None:
        server.command(*claim.words())
        value = server.command("GET", claim.keys[0])
        assert isinstance(value, bytes)
        server.command("EVAL", FILL, 0, claim.keys[0].removesuffix(NAME), calls, value)

    def turn(
        script: Script,
        prepare: Callable[[], None] = nothing,
        *,
        names: int = NAMES,
        calls: int = calls,
    ) -> Callable[[], Load]:
        def load() -> Load:
            server.command("FLUSHALL", "SYNC")
            prepare()
            measured = _load(server, script, calls, names)
            if prepare is nothing:
                size = server.command("DBSIZE")
                assert isinstance(size, int)
                assert size > calls * 0.99, "names were not free"
            return measured

        return load

    return {
        "smallest": turn(smallest),
        "claim": turn(free),
        "claim, refused": turn(refused, taken, calls=calls // 2),
        "claim, queued": turn(claim.altered(fresh), taken, calls=calls // 10),
        # Names are drawn with repetition, so about a third of these find nothing.
        "resign": turn(resign.altered({NAME: RANDOM}), filled, names=calls),
    }


def _load(server: Redis, script: Script, calls: int, names: int) -> Load:
    command = ["redis-benchmark", "-h", server.host, "-p", str(server.port), "--csv"]
    size = ["-c", str(CLIENTS), "-n", str(calls), "-r", str(names)]
    before = _cpu(server)
    out = subprocess.check_output([*command, *size, *script.words()], text=True)
    cpu = _cpu(server) - before
    # The line is the command, then rps and six latencies. The command may itself hold commas.
    rate = out.strip().rsplit(",", 7)[1].strip('"')
    return Load(float(rate), cpu / calls * 1e6)


def _cpu(server: Redis) -> float:
    """Ask Redis itself, which counts microseconds; /proc counts hundredths of a second."""
    info = server.info("cpu")
    return float(info["used_cpu_user"]) + float(info["used_cpu_sys"])


def _median(loads: Sequence[Load], field: str) -> float:
    return statistics.median(float(getattr(load, field)) for load in loads)
