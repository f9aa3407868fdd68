"""A proxy in front of a unix socket names the client's certificate, and is believed there only."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from lockfast.claims import payload
from lockfast.engines.remote.messages import Inspect, Page
from lockfast.service.admission import Admission
from lockfast.service.binding import bind_unix
from lockfast.service.caller import Caller
from lockfast.service.keys import Keys
from lockfast.service.subjects import Subjects
from tests.servers import Redis
from tests.service.served import Served, bearer
from tests.service.test_rights import KEYS, ORDERS, why

HEADER, DN = "X-Client-Cert", "CN=billing,O=Example"
CONFIG = f"""
uds = "lockfast.sock"
certificate_header = "{HEADER}"
{KEYS}
[subjects.orders]
claim = ["orders/"]
[subjects.billing]
certificates = ["{DN}"]
claim = ["invoices/"]
inspect = [""]
"""


@pytest.fixture(scope="module")
def redis() -> Iterator[Redis]:
    with Redis() as found:
        yield found


@pytest.fixture(scope="module")
def served(redis: Redis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("uds"), redis.url, CONFIG) as found:
        yield found


def test_the_subject_is_that_of_the_certificate(served: Served) -> None:
    uds = served.folder / "lockfast.sock"
    assert uds.stat().st_mode & 0o777 == 0o600
    with served.voice([(HEADER, DN)], uds) as voice:
        asked = voice.new("invoices/1")
        assert voice.claim(asked).results[0] is not None
        assert "'billing' may not claim" in why(voice.claim(voice.new("orders/1")))
        page: Page = voice.call(Inspect(0, asked.name, exact=True))
        who = payload.read(page.entries[0].payload)
        assert (who.subject, who.address) == ("billing", "")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([(HEADER, DN)], 101),
        ([(HEADER.lower(), DN)], 101),
        ([(HEADER, "")], 401),
        ([], 401),
        ([(HEADER, "CN=other")], 403),
        ([(HEADER, "billing")], 403),
        ([(HEADER, DN.lower())], 403),
        ([(HEADER, DN), (HEADER, "CN=other")], 401),
        ([(HEADER, DN), *bearer(ORDERS)], 401),
        ([(HEADER, ""), *bearer(ORDERS)], 101),
        ([*bearer(ORDERS)], 101),
        ([(HEADER, "x" * 1_025)], 401),
        ([(HEADER, DN), ("Origin", "https://evil.example")], 403),
    ],
)
def test_who_gets_in(served: Served, headers: list[tuple[str, str]], status: int) -> None:
    assert served.status(headers, served.folder / "lockfast.sock") == status


def test_the_header_means_nothing_on_any_other_transport() -> None:
    subjects = Subjects({"billing": {"certificates": [DN], "claim": [""]}})
    admission = Admission(Keys(), subjects, None, HEADER)
    headers = [(b"host", b"localhost"), (HEADER.lower().encode(), DN.encode())]
    scope = {"headers": headers, "client": ("127.0.0.1", 1)}
    assert admission.caller(scope) == 401
    found = admission.caller({**scope, "extensions": {"lockfast.unix": True}})
    assert isinstance(found, Caller)
    assert found.name == "billing"


def test_the_permissions_can_be_configured_and_a_dead_socket_is_replaced(
    redis: Redis, tmp_path: Path
) -> None:
    path = tmp_path / "lockfast.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    config = CONFIG.replace("certificate_header", 'uds_mode = "0660"\ncertificate_header', 1)
    with Served(tmp_path, redis.url, config) as served:
        assert path.stat().st_mode & 0o777 == 0o660
        assert served.status([(HEADER, DN)], path) == 101
        with pytest.raises(ValueError, match="in use"):
            bind_unix(str(path), 0o600)
        served.program.process.terminate()
        assert served.program.wait() == 0
    assert not path.exists()


def test_what_is_no_socket_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "notes"
    path.write_text("mine")
    with pytest.raises(ValueError, match="cannot be used"):
        bind_unix(str(path), 0o600)
    assert path.read_text() == "mine"


def test_workers_share_the_socket(redis: Redis, tmp_path: Path) -> None:
    with Served(tmp_path, redis.url, f"workers = 2\n{CONFIG}") as served:
        path = tmp_path / "lockfast.sock"
        for _ in range(6):
            assert served.status([(HEADER, DN)], path) == 101
        served.program.process.terminate()
        assert served.program.wait() == 0
    assert not path.exists()
