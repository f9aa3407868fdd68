"""Django: a lock in a view, in a real server with a real database."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from http import HTTPStatus
from typing import NamedTuple

import httpx
import psycopg
import pytest

import lockfast
from lockfast.guards.postgres import PostgresGuard
from tests.integrations.migrating import LONG, Place, place
from tests.servers import Program, Redis, free_port, wait_until


class Site(NamedTuple):
    """A server of the example, and what it uses."""

    port: int
    place: Place

    @property
    def database(self) -> str:
        return self.place.postgres.url.removesuffix("postgres") + "app"

    def pay(self, invoice: int) -> httpx.Response:
        return httpx.post(f"http://127.0.0.1:{self.port}/invoices/{invoice}/pay", timeout=LONG)

    def paid(self, invoice: int) -> int:
        """Pay, as often as it takes on a slow machine, and give the number of payments."""
        while (answer := self.pay(invoice)).status_code == HTTPStatus.LOCKED:
            pass
        assert answer.status_code == HTTPStatus.OK, answer.text
        return int(answer.json()["payments"])


@pytest.fixture(scope="module", params=["settings", "tests.integrations.atomic_settings"])
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    port = free_port()
    with place("django-view") as project, ExitStack() as stack:
        project.ended([project.start("-m", "django", "migrate", "--settings", "settings")])
        argv = ["django", "runserver", "--noreload", str(port), "--settings", request.param]
        env = {
            "PGPORT": str(project.postgres.port),
            "PGUSER": "postgres",
            "REDIS_URL": project.redis.url,
        }
        stack.enter_context(Program(argv, project.home, "Quit the server", env))
        yield Site(port, project)


def test_requests_for_one_invoice_run_one_after_another(site: Site) -> None:
    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(site.paid, [1] * 8)) == list(range(1, 9))


def test_a_request_that_does_not_get_the_lock_is_423_and_others_are_served(site: Site) -> None:
    with lockfast.connect(site.place.redis.url) as client, client.lock("invoice:2"):
        answer = site.pay(2)
        assert site.paid(3) == 1
    assert answer.status_code == HTTPStatus.LOCKED
    assert answer.headers["Retry-After"] == "2"


def test_a_write_after_a_later_holder_is_409(site: Site) -> None:
    # Tokens of the other server are higher here, so that the request is the earlier holder.
    with (
        Redis() as other,
        lockfast.connect(f"{other.url}?token_base=1000000000000000") as client,
        psycopg.connect(site.database) as connection,
        client.lock("invoice:4") as lease,
    ):
        PostgresGuard(connection).seal(lease)
        assert site.pay(4).status_code == HTTPStatus.CONFLICT


def test_the_database_rejects_a_write_without_the_lock(site: Site) -> None:
    site.paid(5)
    with (
        psycopg.connect(site.database, autocommit=True) as connection,
        pytest.raises(psycopg.Error, match="invoice:5"),
    ):
        connection.execute("UPDATE shop_invoice SET payments = 0 WHERE id = 5")


def test_a_view_whose_client_has_gone_ends_its_work_and_releases(site: Site) -> None:
    with lockfast.connect(site.place.redis.url) as client:
        lock = client.lock("invoice:7")

        def leaves() -> bool:
            """Ask, and go while the view waits. Tell whether it has paid."""
            with lock, closing(socket.create_connection(("127.0.0.1", site.port))) as gone:
                gone.sendall(b"POST /invoices/7/pay HTTP/1.1\r\nHost: localhost\r\n\r\n")
                wait_until(lambda: len(lock.queue()) == 2, "it waits", LONG)
            wait_until(lambda: not lock.queue(), "the lock is free", LONG)
            with psycopg.connect(site.database) as connection:
                found = connection.execute("SELECT payments FROM shop_invoice WHERE id = 7")
                return found.fetchall() == [(1,)]

        # On a slow machine it may stop waiting just before it is its turn.
        wait_until(leaves, "a view pays though its client has gone", LONG)


def test_a_lock_server_that_is_down_is_503(site: Site) -> None:
    site.place.redis.stop()
    try:
        answer = site.pay(6)
    finally:
        site.place.redis.start()
    assert answer.status_code == HTTPStatus.SERVICE_UNAVAILABLE
    assert answer.headers["Retry-After"] == "5"
    assert site.paid(6) == 1
