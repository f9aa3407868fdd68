"""Meters: what an engine and a replica have used so far, as Linux counts it."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.request import urlopen

from benchmarks.planning.costs import Cost
from benchmarks.stage import TICKS

COUNTED = re.compile(r" (?:bytes_acked|bytes_received):(\d+)")
LINE = re.compile(r'^lock_service_engine_(\w+)\{lock_call="(\w+)"[^}]*\} (\S+)$', re.MULTILINE)


class Meter:
    """Reads what some processes have used: CPU, bytes of their connections, disk and memory."""

    def __init__(
        self, engine: Sequence[int], ports: Sequence[int], replica: tuple[int, int] | None
    ) -> None:
        """Read of these processes of the engine, listening here, and of one replica: pid, port."""
        self._engine, self._ports, self._replica = engine, ports, replica

    def read(self) -> Cost:
        """Return what has been used until now. The difference between two is what was used."""
        pids = _with_children(self._engine)
        replica, port = self._replica or (0, 0)
        return Cost(
            engine_us=sum(_cpu(pid) for pid in pids) + sum(_ended(pid) for pid in self._engine),
            replica_us=_cpu(replica) if replica else 0.0,
            engine_bytes=_bytes(self._ports),
            replica_bytes=_bytes([port]) if port else 0.0,
            # SQLite has no processes of its own: the replica writes.
            disk_bytes=sum(_written(pid) for pid in [*pids, *([replica] if replica else [])]),
            engine_memory=sum(_memory(pid) for pid in pids),
            replica_memory=_memory(replica) if replica else 0.0,
        )

    def shares(self) -> list[float]:
        """Return the CPU of each member of the engine."""
        return [sum(map(_cpu, _with_children([pid]))) for pid in self._engine]

    def connections(self) -> int:
        """Return how many connections the engine has."""
        return len(_sockets(self._ports))

    def calls(self) -> dict[str, float]:
        """Return what a replica counts of its calls of the engine, such as `claims_sum renew`."""
        if self._replica is None:
            return {}
        with urlopen(f"http://127.0.0.1:{self._replica[1]}/metrics", timeout=10) as reply:
            page = reply.read().decode()
        return {f"{name} {call}": float(value) for name, call, value in LINE.findall(page)}


def _with_children(pids: Sequence[int]) -> list[int]:
    found = list(pids)
    for pid in pids:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii")
        found += [int(word) for word in text.split()]
    return found


def _cpu(pid: int) -> float:
    """Return the microseconds of a process. /proc would say hundredths of a second."""
    try:
        # The clock of another process, as clock_getcpuclockid(3) makes it on Linux.
        return time.clock_gettime((~pid << 3) | 2) * 1e6
    except OSError:  # a child that has just ended
        return 0.0


def _ended(pid: int) -> float:
    """Return the microseconds of the children that have ended."""
    stat = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return sum(map(int, stat[13:15])) / TICKS * 1e6


def _written(pid: int) -> float:
    return _number(Path(f"/proc/{pid}/io"), "write_bytes:")


def _memory(pid: int) -> float:
    """Return the bytes of a process. What it shares with others counts once, among all of them."""
    return _number(Path(f"/proc/{pid}/smaps_rollup"), "Pss:") * 1024


def _number(path: Path, name: str) -> float:
    try:
        lines = path.read_text("ascii").splitlines()
    except (FileNotFoundError, ProcessLookupError):  # a child that has just ended
        return 0.0
    return sum(float(line.split()[1]) for line in lines if line.startswith(name))


def _sockets(ports: Sequence[int]) -> list[str]:
    if not ports:
        return []
    where = " or ".join(f"sport = :{port}" for port in ports)
    command = ["ss", "-tinOH", "state", "established", f"( {where} )"]
    return subprocess.check_output(command, text=True).splitlines()


def _bytes(ports: Sequence[int]) -> float:
    """Return the bytes of all connections that are open, without the headers of packets."""
    return sum(int(value) for line in _sockets(ports) for value in COUNTED.findall(line))
