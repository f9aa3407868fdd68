"""What the page on MySQL tells people to configure is enough, and its tables are true."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pymysql
import pytest

import lockfast
from lockfast import EngineRefused
from lockfast.engines.mysql import guarantees, install, procedures
from lockfast.engines.mysql.engine import MysqlEngine
from lockfast.engines.mysql.messages import BUCKETS
from tests.docs.rights import do_everything
from tests.servers import MariaDB

PAGE = (Path(__file__).parents[2] / "docs" / "engines" / "mysql.md").read_text("utf-8")
NUMBERS = {8: "eight", 17: "seventeen"}


@pytest.fixture(scope="module")
def server() -> Iterator[MariaDB]:
    with MariaDB(config={"innodb-flush-log-at-trx-commit": "0"}) as server:
        install(server.url)
        yield server


def statement(begins: str) -> str:
    """Read a statement of the page, which a reader pastes."""
    found = re.search(rf"^({re.escape(begins)}[^;]+);$", PAGE, re.MULTILINE)
    assert found is not None
    return found[1]


def test_a_user_with_the_documented_right_can_do_everything(server: MariaDB) -> None:
    server.command("CREATE USER app@'%'")
    url = server.address("app")
    with (
        lockfast.connect(url) as client,
        pytest.raises(EngineRefused, match="GRANT EXECUTE ON"),
    ):
        client.lock("x").acquire(timeout=1)
    server.command(statement("GRANT EXECUTE"))
    do_everything(url)


def test_doctor_reads_each_setting_that_the_page_says_it_checks() -> None:
    table, _, rest = PAGE.partition("## What to configure")[2].partition(
        "`lockfast --url URL doctor`"
    )
    settings = set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))
    except_ = re.match(r" checks these settings, except for ([^.]+)\.", rest)
    assert except_ is not None
    read = guarantees.VARIABLES.decode()
    unread = {name for name in settings if f"'{name}'" not in read}
    assert unread == {name for name in settings if f"`{name}`" in except_[1]}


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM lockfast_claim",
        "DELETE FROM lockfast_claim",
        "UPDATE lockfast_bucket SET last = 9007199254740991",
        "DELETE FROM lockfast_tombstone",
        "INSERT INTO lockfast_operator VALUES ('poor', '%')",
        "CREATE TABLE more (a INT)",
    ],
)
def test_a_user_with_the_documented_right_can_do_nothing_else(server: MariaDB, sql: str) -> None:
    server.command("CREATE USER IF NOT EXISTS poor@'%'")
    server.command(statement("GRANT EXECUTE").replace("app", "poor"))
    with (
        server.connect("poor", "", database="lockfast") as connection,
        connection.cursor() as cursor,
        pytest.raises(pymysql.Error, match="denied"),
    ):
        cursor.execute(sql)


def test_an_operator_as_documented_can_break_the_locks_of_an_application(server: MariaDB) -> None:
    for user in ("app", "operator"):
        server.command(f"CREATE USER IF NOT EXISTS {user}@'%'")
        server.command(statement("GRANT EXECUTE").replace("app", user))
    with (
        lockfast.connect(server.address("app")) as client,
        lockfast.connect(server.address("operator")) as operator,
    ):
        lease = client.lock("documented", ttl=5).acquire()
        (holder,) = operator.lock("documented").holders()
        with pytest.raises(EngineRefused, match="app"):
            operator.revoke(holder, "not yet")
        server.command(statement("INSERT INTO lockfast.lockfast_operator"))
        assert operator.revoke(holder, "an operator")
        assert lease.wait_lost(5)


def test_the_query_of_the_page_shows_the_locks(server: MariaDB) -> None:
    with lockfast.connect(server.url) as client, client.lock("shown ü", ttl=5) as lease:
        sql = statement("SELECT CONVERT(name").replace("lockfast_claim", "lockfast.lockfast_claim")
        (row,) = [row for row in server.command(sql) if row[0] == "shown ü"]
        assert row[1:4] == (1, lease.token, 1)


def test_the_page_lists_what_is_created(server: MariaDB) -> None:
    tables = {name for (name,) in server.command("SHOW TABLES FROM lockfast")}
    listed = set(re.findall(r"^\| `(lockfast_\w+)` \|", PAGE, re.MULTILINE))
    assert listed == tables
    made = len(re.findall(r"^CREATE PROCEDURE", procedures.text(mariadb=False), re.MULTILINE))
    assert f"{NUMBERS[len(tables)]} tables and {NUMBERS[made]} procedures" in PAGE


def test_the_numbers_of_the_page_are_those_of_the_code() -> None:
    assert f"up to {MysqlEngine.batch} in one\ncommit" in PAGE
    assert f"1 for every {MysqlEngine.batch} locks of the client" in PAGE
    assert f"spread over {BUCKETS:,} buckets" in PAGE


def test_the_token_base_lifts_every_new_token(server: MariaDB) -> None:
    base = 2_000_000_000_000_000
    tokens = []
    for url in (server.url, f"{server.url}?token_base={base}", server.url):
        with lockfast.connect(url) as client, client.lock("moved") as lease:
            tokens.append(lease.token)
    assert tokens == sorted(set(tokens))
    assert tokens[1] >= base


def test_an_option_that_nobody_knows_is_refused(server: MariaDB) -> None:
    with pytest.raises(ValueError, match="has no option ssl_mod"):
        lockfast.connect(f"{server.url}?ssl_mod=required")


def test_a_user_whom_the_server_does_not_know_is_refused_and_not_waited_for(
    server: MariaDB,
) -> None:
    with (
        lockfast.connect(server.address("stranger")) as client,
        pytest.raises(EngineRefused, match="stranger"),
    ):
        client.lock("x").acquire(timeout=5)
