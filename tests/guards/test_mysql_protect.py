"""Triggers on MariaDB that are made, made again and removed while others write."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pymysql
import pytest

import lockfast
from lockfast.guards.mysql import MysqlGuard, protect, unprotect
from tests.guards.database import lease
from tests.guards.registers.mysql import Link, connect, run
from tests.servers import MariaDB


@pytest.fixture
def shell(mariadb: MariaDB) -> Iterator[Link]:
    with connect(mariadb.url) as connection:
        run(connection, "DROP TABLE IF EXISTS stock, stock_old, stock_new")
        run(connection, "CREATE TABLE stock (id INT PRIMARY KEY AUTO_INCREMENT, n INT)")
        run(connection, "CREATE TABLE stock_new LIKE stock")
        protect(connection, "stock", "stock")
        yield connection


def test_protecting_again_leaves_no_moment_for_an_unguarded_write(
    mariadb: MariaDB, shell: Link
) -> None:
    """Every DDL statement commits: between a DROP and a CREATE, the table had no trigger."""
    over = threading.Event()

    def intrude() -> list[str]:
        refusals: list[str] = []
        with connect(mariadb.url) as connection:
            while not over.is_set():
                with pytest.raises(pymysql.Error) as caught:  # also one that gave no error fails
                    run(connection, "INSERT INTO stock (n) VALUES (1)")
                refusals.append(str(caught.value))
        return refusals

    with ThreadPoolExecutor(2) as pool:
        intruders = [pool.submit(intrude) for _ in range(2)]
        try:
            for _ in range(30):
                protect(shell, "stock", "stock")
        finally:
            over.set()
    for each in intruders:
        said = each.result()
        assert said
        assert all("LF002" in one for one in said)
    assert len(run(shell, "SHOW TRIGGERS LIKE 'stock'")) == 3


def test_a_table_that_took_the_name_of_another_is_protected(
    shell: Link, client: lockfast.Client
) -> None:
    """Tools for migrations copy a table and swap the two. The triggers go with the old one."""
    run(shell, "RENAME TABLE stock TO stock_old, stock_new TO stock")
    run(shell, "INSERT INTO stock (n) VALUES (1)")  # as the page says
    protect(shell, "stock", "stock")
    for table in ("stock", "stock_old"):
        with pytest.raises(pymysql.Error, match="LF002"):
            run(shell, f"INSERT INTO {table} (n) VALUES (1)")  # noqa: S608  # ours
    with MysqlGuard(shell).transaction(lease(client, "stock")) as cursor:
        cursor.execute("INSERT INTO stock (n) VALUES (1)")
    unprotect(shell, "stock_old")
    run(shell, "INSERT INTO stock_old (n) VALUES (1)")


def test_two_that_protect_a_table_at_once_leave_one_set_of_triggers(
    mariadb: MariaDB, shell: Link
) -> None:
    def again(_: int) -> None:
        with connect(mariadb.url) as connection:
            protect(connection, "stock", "stock")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(again, range(8)))
    assert len(run(shell, "SHOW TRIGGERS LIKE 'stock'")) == 3
