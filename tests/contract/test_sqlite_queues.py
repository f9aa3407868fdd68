"""Long queues on SQLite: an operation costs as much as in a short one."""

from __future__ import annotations

from pathlib import Path

import pytest

import lockfast
from lockfast.engines.sqlite.engine import SqliteEngine
from lockfast.port import Ask, Kind, Shape, Standing
from lockfast.runtime.drive import drive

FEW, MANY = 20, 2000
FAR = 2.0**40


def asked(kind: Kind, number: int, *, queue: bool = True) -> Ask:
    shape = Shape("long", 600.0, kind, 1 if kind is Kind.LOCK else 2 * MANY)
    return Ask(f"{number:032x}", shape, queue, FAR, b"")


def steps(engine: SqliteEngine, kind: Kind, size: int) -> dict[str, int]:
    """Count the steps of SQLite's virtual machine that each operation takes in a long queue."""
    count = [0]

    def one() -> int:
        count[0] += 1
        return 0

    connection = engine._store._connection
    assert connection is not None
    connection.set_progress_handler(one, 1)

    def cost() -> int:
        spent, count[0] = count[0], 0
        return spent

    found = {}
    last, middle = asked(kind, size + 1), asked(kind, size // 2)
    (standing,) = drive(engine.claim_all([last], FAR))
    assert isinstance(standing, Standing)
    assert standing.ahead == size
    found["claim"] = cost()
    drive(engine.renew([last], FAR))
    found["renew the last"] = cost()
    drive(engine.renew([asked(kind, 1)], FAR))
    found["renew the first"] = cost()
    drive(engine.renew([asked(kind, 2)], FAR))
    found["renew the second"] = cost()
    drive(engine.resign([middle], FAR, doubt=False))
    found["resign"] = cost()
    drive(engine.resign([asked(kind, 1)], FAR, doubt=False))
    found["resign the first"] = cost()
    drive(engine.claim_all([asked(kind, size + 2, queue=False)], FAR))
    found["try"] = cost()
    connection.set_progress_handler(None, 0)
    return found


@pytest.mark.parametrize("kind", [Kind.LOCK, Kind.SEMAPHORE])
def test_an_operation_costs_the_same_in_a_long_queue(tmp_path: Path, kind: Kind) -> None:
    costs = []
    for size in (FEW, MANY):
        url = f"sqlite:///{tmp_path}/{size}.db"
        with lockfast.connect(url) as client:
            client.lock("warm").acquire().release()
            engine = client._session.engine
            assert isinstance(engine, SqliteEngine)
            # One by one, so that each has a place; without the heart, which has no part in this.
            drive(engine.claim_all([asked(kind, n) for n in range(1, size + 1)], FAR))
            costs.append(steps(engine, kind, size))
    few, many = costs
    for operation, spent in many.items():
        # At most a hundred claims ahead are counted, at about ten steps each.
        assert spent < 2 * few[operation] + 1500, (operation, few[operation], spent)
