"""A guarded write against a bare one, in the same transaction: one function per resource."""

from __future__ import annotations

import psycopg

import lockfast
from benchmarks.guarding import mysql as on_mysql
from benchmarks.guarding import redis as on_redis
from benchmarks.rounds import Turn, Work, fitted, interleave, rate, ratio
from benchmarks.stage import Result, Stage
from lockfast.guards.postgres import PostgresGuard, install
from tests.servers import Postgres

ROWS = 1_000
UPDATE = "UPDATE account SET balance = balance + %s WHERE id = %s"


def run(stage: Stage) -> Result:
    measured = {"postgres": postgres(stage), "mysql": mysql(stage), "redis": redis(stage)}
    rates = {
        resource: {name: round(rate(turns)) for name, turns in results.items()}
        for resource, results in measured.items()
    }
    ratios = {
        resource: ratio(results["guarded"], results["bare"])
        for resource, results in measured.items()
    }
    return Result(
        figures={
            **{f"{resource}_ratio": round(share, 3) for resource, share in ratios.items()},
            "writes_per_second": rates,
        },
        head=("", "bare/s", "guarded/s", "of bare"),
        rows=[
            (name, f"{each['bare']:,}", f"{each['guarded']:,}", f"{ratios[name]:.2f}")
            for name, each in rates.items()
        ],
    )


def postgres(stage: Stage) -> dict[str, list[Turn]]:
    """One row is updated, in a transaction of psycopg's."""
    with (
        Postgres() as server,
        lockfast.connect("memory://") as client,
        client.lock("account:7", ttl=600) as lease,
        psycopg.connect(server.url, autocommit=True) as connection,
    ):
        install(server.url)
        connection.execute("CREATE TABLE account (id int PRIMARY KEY, balance bigint)")
        connection.execute("INSERT INTO account SELECT generate_series(1, %s), 0", [ROWS])
        guard = PostgresGuard(connection)
        guard.seal(lease)

        def bare(count: int) -> None:
            for _ in range(count):
                with connection.transaction():
                    connection.execute(UPDATE, [1, 7])

        def guarded(count: int) -> None:
            for _ in range(count):
                with guard.transaction(lease) as cursor:
                    cursor.execute(UPDATE, [1, 7])

        return _measured(stage, bare, guarded)


def mysql(stage: Stage) -> dict[str, list[Turn]]:
    """One row is updated, in a transaction of PyMySQL's."""
    with on_mysql.writes() as works:
        return _measured(stage, works["bare"], works["guarded"])


def redis(stage: Stage) -> dict[str, list[Turn]]:
    """One key is set, by redis-py."""
    with on_redis.writes() as works:
        return _measured(stage, works["bare"], works["guarded"])


def _measured(stage: Stage, bare: Work, guarded: Work) -> dict[str, list[Turn]]:
    works = {"bare": bare, "guarded": guarded}
    turns = {name: fitted(work, stage.pick(0.05, 0.02)) for name, work in works.items()}
    return interleave(turns, stage.count(150, 3), stage.say)
