"""The page "At scale": its figures are those that were measured."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys

from benchmarks.planning.costs import Cost, Costs
from benchmarks.planning.stored import read
from tests.docs.page import ROOT

PAGE = (ROOT / "docs" / "service" / "at-scale.md").read_text("utf-8")
COSTS = read()
NAMES = {
    "redis": "Redis",
    "redlock": "Redlock",
    "postgres": "PostgreSQL",
    "mysql": "MariaDB",
    "etcd": "etcd",
    "zookeeper": "ZooKeeper",
    "sqlite": "SQLite",
}
BATCH = 100  # renewals in a call of a replica


def renewal(costs: Costs) -> Cost:
    """Return what one of many renewals costs that a replica sends together."""
    return costs.service.renewal + costs.service.renewal_call.times(1.0 / BATCH)


def two(value: float) -> str:
    """Write a number with two digits that count."""
    return f"{float(f'{value:.2g}'):,g}"


def row(engine: str) -> str:
    """Return an engine's row of the table."""
    costs = COSTS[engine]
    direct = costs.direct
    cells = [
        two((direct.pair + direct.pair_call).engine_us),
        two((direct.renewal + direct.renewal_call).engine_us),
        "-" if engine == "sqlite" else two(renewal(costs).engine_us),
        two(direct.lease.engine_memory),
        "-" if engine == "sqlite" else two(direct.connection.engine_memory / 1000.0),
    ]
    return f"| {NAMES[engine]} | {' | '.join(cells)} |"


def test_the_table_has_the_stored_constants() -> None:
    rows = [row(engine) for engine in NAMES]
    missing = [each for each in rows if each not in PAGE]
    assert not missing, "the page must have these rows:\n" + "\n".join(missing)


def test_the_plan_is_what_the_command_prints() -> None:
    (command,) = re.findall(r"\$ python (-m benchmarks plan .*)", PAGE)
    said = subprocess.run(
        [sys.executable, *shlex.split(command)], cwd=ROOT, stdout=subprocess.PIPE, check=True
    ).stdout.decode()
    (shown,) = re.findall(r"benchmarks plan [^\n]*\n(.*?)\n```", PAGE, re.DOTALL)
    assert shown in said, said
