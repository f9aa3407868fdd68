"""`doctor` on MariaDB: each weakness of a real server is found, and its remedy removes it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import lockfast
from lockfast.engines.mysql import install
from lockfast.engines.mysql.guarantees import guarantees
from lockfast.engines.mysql.url import Address
from lockfast.url import parse
from tests.cli.commands.calls import Calls, Said
from tests.servers import MariaDB, wait_until

Doctor = Callable[..., Said]
BINLOG = {"log-bin": "log", "sync-binlog": "1"}
GALERA = Path("/usr/lib/galera/libgalera_smm.so")


@pytest.fixture
def doctor(capsys: pytest.CaptureFixture[str]) -> Doctor:
    return lambda url, *args: Calls(url, capsys)("doctor", *args)


@pytest.fixture(scope="module")
def server() -> Iterator[MariaDB]:
    with MariaDB(config=BINLOG) as server:
        install(server.url)
        server.command("CREATE USER app@'%'")
        server.command("GRANT EXECUTE ON lockfast.* TO app@'%'")
        yield server


def test_a_well_kept_mariadb_is_left_alone(doctor: Doctor, server: MariaDB) -> None:
    for url in (server.url, server.address("app")):
        said = doctor(url)
        assert said.code == 0
        assert re.match(r"MariaDB 1[0-9.]+ gives the level fenced\.", said.words)
        assert said.out.endswith("No setting needs to be changed.\n")


@pytest.mark.parametrize(
    ("setting", "value", "level"),
    [
        ("innodb_flush_log_at_trx_commit", "0", "efficiency"),
        ("innodb_flush_log_at_trx_commit", "2", "efficiency"),
        ("sync_binlog", "0", "efficiency"),
        ("sync_binlog", "100", "efficiency"),
        ("max_allowed_packet", "16384", "fenced"),
    ],
)
def test_a_setting_is_found_with_what_to_type(
    doctor: Doctor, server: MariaDB, setting: str, value: str, level: str
) -> None:
    server.command(f"SET GLOBAL {setting} = {value}")
    (told,) = doctor(server.url, "--json").objects
    (finding,) = told["findings"]
    assert (told["level"], told["good"]) == (level, False)
    assert finding["setting"] == f"{setting} = {value}"
    server.command(finding["remedy"])  # as it says
    assert doctor(server.url).code == 0


def test_a_flush_of_three_is_as_good_as_one(doctor: Doctor, server: MariaDB) -> None:
    server.command("SET GLOBAL innodb_flush_log_at_trx_commit = 3")
    assert doctor(server.url).code == 0
    server.command("SET GLOBAL innodb_flush_log_at_trx_commit = 1")


def test_an_owner_who_may_not_wake_waiters_is_found(doctor: Doctor, server: MariaDB) -> None:
    server.command("CREATE USER `the owner`@'%'")
    server.command("GRANT ALL ON owned.* TO `the owner`@'%'")
    server.command("GRANT EXECUTE ON owned.* TO app@'%'")
    install(server.address("the%20owner").replace("/lockfast", "/owned"))
    url = server.address("app").replace("/lockfast", "/owned")
    (told,) = doctor(url, "--json").objects
    (finding,) = told["findings"]
    assert told["level"] == "fenced"
    assert "the owner@%, who installed the procedures" in finding["setting"]
    assert "every half second" in finding["risk"]
    # The owner's own clients are woken without that right.
    assert doctor(server.address("the%20owner").replace("/lockfast", "/owned")).code == 0
    server.command(finding["remedy"])  # as it says
    assert doctor(url).code == 0


def test_a_mariadb_in_which_no_lock_can_be_taken_is_not_well(
    doctor: Doctor, server: MariaDB
) -> None:
    server.command("CREATE USER nobody@'%'")
    without_rights = doctor(server.address("nobody"), "--json")
    without_database = doctor(server.url.replace("/lockfast", "/nowhere"))
    server.command("CREATE DATABASE vacant")
    without_tables = doctor(server.url.replace("/lockfast", "/vacant"))
    wrong = doctor(server.address("root", "wrong"))
    for said, text in (
        (without_rights, "GRANT EXECUTE ON"),
        (without_database, "lockfast.engines.mysql.install(url)"),
        (without_tables, "lockfast.engines.mysql.install(url)"),
        (wrong, "Access denied"),
    ):
        assert (said.code, said.out) == (78, "")
        assert text in said.err


def test_procedures_of_an_earlier_version_are_found(doctor: Doctor, server: MariaDB) -> None:
    url = server.url.replace("/lockfast", "/earlier")
    install(url)
    server.command("DROP PROCEDURE earlier.lockfast_wake_v1")
    said = doctor(url)
    assert (said.code, said.out) == (78, "")
    assert "lockfast.engines.mysql.install(url)" in said.err
    install(url)
    assert doctor(url).code == 0


def test_a_server_that_is_read_only_cannot_be_used(doctor: Doctor, server: MariaDB) -> None:
    server.command("SET GLOBAL read_only = 1")
    try:
        said = doctor(server.url)
    finally:
        server.command("SET GLOBAL read_only = 0")
    assert (said.code, said.out) == (69, "")
    assert "read-only" in said.err


def test_what_only_a_restart_changes_is_found(doctor: Doctor) -> None:
    config = {**BINLOG, "binlog-format": "STATEMENT", "innodb-doublewrite": "0"}
    with MariaDB(config=config) as server:
        install(server.url)
        (told,) = doctor(server.url, "--json").objects
    assert told["level"] == "efficiency"
    assert [each["setting"] for each in told["findings"]] == [
        "innodb_doublewrite = OFF",
        "binlog_format = STATEMENT",
    ]
    assert "innodb_doublewrite = ON in" in told["findings"][0]["remedy"]
    assert told["findings"][1]["remedy"] == "SET GLOBAL binlog_format = ROW"


def test_a_pool_of_threads_in_which_no_waiter_is_woken_is_found(doctor: Doctor) -> None:
    with MariaDB(config={"thread-handling": "pool-of-threads"}) as server:
        install(server.url)
        (told,) = doctor(server.url, "--json").objects
        (finding,) = told["findings"]
        assert finding["setting"] == "thread_handling = pool-of-threads"
        assert "every half second" in finding["risk"]
        setting, value = finding["remedy"].partition(" in the")[0].split(" = ")
        server.config[setting.replace("_", "-")] = value  # as it says
        server.restart()
        assert doctor(server.url).code == 0


def test_semi_synchronous_replication_is_read(doctor: Doctor) -> None:
    point = "rpl_semi_sync_master_wait_point"
    config = {
        **BINLOG,
        "rpl-semi-sync-master-enabled": "1",
        "rpl-semi-sync-slave-enabled": "1",
        point.replace("_", "-"): "AFTER_SYNC",
    }
    with MariaDB(config=config) as primary, MariaDB(config=config) as replica:
        install(primary.url)
        (told,) = doctor(primary.url, "--json").objects
        (finding,) = told["findings"]
        assert finding["setting"] == "semi-synchronous replication is not active"
        replica.follow(primary)
        clients = "SHOW GLOBAL STATUS LIKE 'Rpl_semi_sync_master_clients'"
        wait_until(lambda: primary.command(clients)[0][1] == "1", "the replica is connected")
        (told,) = doctor(primary.url, "--json").objects
        assert (told["level"], told["findings"]) == ("fenced", [])
        assert "while semi-synchronous replication is active" in told["promise"]
        primary.command(f"SET GLOBAL {point} = AFTER_COMMIT")
        (told,) = doctor(primary.url, "--json").objects
        (finding,) = told["findings"]
        assert finding["setting"] == f"{point} = AFTER_COMMIT"
        assert "the promotion of a replica that lagged" in told["promise"]
        primary.command(finding["remedy"])  # as it says
        assert doctor(primary.url).code == 0


def test_a_galera_cluster_of_one_is_found(doctor: Doctor) -> None:
    config = {
        "wsrep-on": "ON",
        "wsrep-provider": str(GALERA),
        "wsrep-cluster-address": "gcomm://",
        "wsrep-node-address": "127.0.0.1",
        "wsrep-provider-options": "gmcast.listen_addr=tcp://127.0.0.1:0",
        "binlog-format": "ROW",
        "innodb-autoinc-lock-mode": "2",
    }
    with MariaDB(config=config) as server:
        install(server.url)
        with lockfast.connect(server.url) as client, client.lock("x") as lease:
            assert lease.token
        (told,) = doctor(server.url, "--json").objects
        assert told["level"] == "fenced"
        assert "the rest of a Galera cluster" in told["promise"]
        size, retries = told["findings"]
        assert size["setting"] == "a Galera cluster of 1"
        assert retries["setting"] == "wsrep_retry_autocommit = 1"
        server.command(retries["remedy"])  # as it says
        (told,) = doctor(server.url, "--json").objects
        assert told["findings"] == [size]


def test_a_network_on_which_the_server_is_not_verified_is_found(doctor: Doctor) -> None:
    with MariaDB(tls=True) as server:
        install(server.url)
        assert doctor(server.url).code == 0
        here = server.url.partition("?")[0]
        assert doctor(here).code == 0  # on this machine, nobody is in between
    for mode in ("disabled", "preferred", "required", "verify_ca"):
        address = Address.of(parse(f"mysql://app@db.example.com/lockfast?ssl_mode={mode}"))
        (finding,) = guarantees({"version": "10.11.1-MariaDB"}, {}, address).findings
        assert finding.setting == f"ssl_mode = {mode}"
        assert ("certificate of the same authority" in finding.risk) is (mode == "verify_ca")
    address = Address.of(parse("mysql://app@db.example.com/lockfast"))
    assert guarantees({"version": "10.11.1-MariaDB"}, {}, address).findings == ()
