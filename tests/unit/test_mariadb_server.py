"""The harness of MariaDB keeps its promises."""

import time

import pymysql
import pytest

from tests.servers import MariaDB, ServerClock


def test_a_kill_keeps_the_data_and_a_new_server_has_none() -> None:
    with MariaDB() as first, MariaDB() as second:
        first.command("CREATE DATABASE kept")
        first.kill()
        first.start()
        assert first.command("SHOW DATABASES LIKE 'kept'") == [("kept",)]
        assert second.command("SHOW DATABASES LIKE 'kept'") == []


def test_a_login_needs_its_password() -> None:
    with MariaDB() as server, pytest.raises(pymysql.OperationalError, match="Access denied"):
        server.connect(password="wrong")  # noqa: S106  # it is


def test_tls() -> None:
    with MariaDB(tls=True) as server:
        ((_, cipher),) = server.command("SHOW STATUS LIKE 'Ssl_cipher'")
        assert cipher


def test_the_clock_moves() -> None:
    clock = ServerClock()
    with MariaDB(env=clock.env) as server:
        ((before,),) = server.command("SELECT UTC_TIMESTAMP(6)")
        clock.advance(3600)
        ((after,),) = server.command("SELECT UTC_TIMESTAMP(6)")
        assert 3600 <= (after - before).total_seconds() < 3610


@pytest.mark.parametrize("moved", [-3600.0, 3600.0])
def test_a_wait_takes_its_true_time_on_a_clock_that_was_moved(moved: float) -> None:
    clock = ServerClock()
    with MariaDB(env=clock.env) as server:
        clock.advance(moved)
        began = time.monotonic()
        server.command("SELECT SLEEP(0.5)")
        assert 0.4 < time.monotonic() - began < 5.0


def test_a_replica_follows_and_is_promoted() -> None:
    config = {"log-bin": "log"}
    with MariaDB(config=config) as primary, MariaDB(config={**config, "read-only": "1"}) as replica:
        primary.command("CREATE DATABASE early")
        replica.follow(primary)
        primary.command("CREATE DATABASE later")
        replica.caught_up(primary)
        primary.kill()
        replica.promote()
        assert replica.command("SELECT @@read_only") == [(0,)]
        assert replica.command("SHOW DATABASES LIKE '%r'") == [("later",)]
        assert replica.command("SHOW DATABASES LIKE 'early'") == [("early",)]
