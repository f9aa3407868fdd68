"""What MariaDB's errors say to somebody who installs lockfast for the first time."""

from __future__ import annotations

import ssl
from collections.abc import Iterator

import pytest

import lockfast
from lockfast import EngineRefused, EngineUnavailable
from lockfast.engines.mysql import install
from lockfast.engines.mysql.failures import distrusted, failed
from lockfast.engines.mysql.guarantees import guarantees
from lockfast.engines.mysql.url import Address
from lockfast.url import parse
from tests.servers import MariaDB


@pytest.fixture(scope="module")
def server() -> Iterator[MariaDB]:
    with MariaDB() as server:
        install(server.url)
        yield server


def refusal(url: str) -> str:
    with lockfast.connect(url) as client, pytest.raises(EngineRefused) as caught:
        client.lock("x").acquire(timeout=5)
    return str(caught.value)


def hold_many(client: lockfast.Client, held: list[lockfast.Lease]) -> None:
    """Acquire locks with long names. A request names the locks that its thread holds."""
    for number in range(30):
        held.append(client.lock(f"{number:0500d}").acquire(timeout=5))  # noqa: PERF401  # or none is kept


def test_an_installation_without_rights_names_the_server(server: MariaDB) -> None:
    server.command("CREATE OR REPLACE USER poor@'%'")
    with pytest.raises(EngineRefused) as caught:
        install(server.address("poor"))
    assert f"MySQL at {server.host}:{server.port}: Access denied" in str(caught.value)


def test_an_owner_who_may_not_give_rights_learns_what_is_left_to_do(server: MariaDB) -> None:
    # It said "install with a user that may create the database", when all but the role was done.
    server.command("CREATE OR REPLACE USER maker@'%'")
    server.command("GRANT ALL ON made.* TO maker@'%'")
    server.command("CREATE OR REPLACE USER app@'%'")
    with pytest.raises(EngineRefused, match="lockfast is installed") as caught:
        install(server.address("maker").replace("/lockfast", "/made"), role="app")
    statement = "GRANT EXECUTE ON `made`.* TO 'app'@'%'"
    assert f"administrator run: {statement})" in str(caught.value)
    server.command(statement)  # as it says
    url = server.address("app").replace("/lockfast", "/made")
    with lockfast.connect(url) as client, client.lock("x") as lease:
        assert lease.token


def test_a_role_that_exists_for_another_host_only_learns_how_to_name_it(server: MariaDB) -> None:
    server.command("CREATE OR REPLACE USER near@'10.0.0.%'")
    with pytest.raises(EngineRefused, match="role='USER@HOST'"):
        install(server.url, role="near")
    install(server.url, role="near@10.0.0.%")  # as it says


def test_a_user_without_rights_learns_that_the_database_may_be_misspelt(server: MariaDB) -> None:
    # The server answers with the same error if the database does not exist. The message told users
    # who had the right that they lacked it.
    server.command("CREATE OR REPLACE USER speller@'%'")
    server.command("GRANT EXECUTE ON lockfast.* TO speller@'%'")
    said = refusal(server.address("speller").replace("/lockfast", "/lokfast"))
    assert "to database 'lokfast'" in said
    assert "or the database does not exist" in said


def test_the_command_that_installs_is_named_too(server: MariaDB) -> None:
    said = refusal(server.url.replace("/lockfast", "/nowhere"))
    assert "lockfast.engines.mysql.install(url)" in said
    assert "lockfast --url URL install" in said


def test_the_database_is_no_part_of_a_sockets_path(server: MariaDB) -> None:
    socket = str(server.socket_path)
    said = refusal(f"mysql://root:wrong@/shop?unix_socket={socket}")
    assert said.startswith(f"MySQL at {socket} database shop: Access denied")


def test_a_host_that_is_misspelt_is_named(server: MariaDB) -> None:
    url = f"mysql://root@nohost.invalid:{server.port}/lockfast"
    with lockfast.connect(url) as client, pytest.raises(EngineUnavailable) as caught:
        client.lock("x").acquire(timeout=5)
    assert f"nohost.invalid:{server.port} has no address" in str(caught.value)


def test_a_request_that_is_too_long_names_the_setting() -> None:
    held: list[lockfast.Lease] = []
    with MariaDB(config={"max-allowed-packet": "16384"}) as server:
        install(server.url)
        with lockfast.connect(server.url) as client:
            with pytest.raises(EngineRefused) as caught:
                hold_many(client, held)
            for lease in held:
                lease.release()
    assert "SET GLOBAL max_allowed_packet = " in str(caught.value)


@pytest.mark.parametrize(
    ("code", "why", "hint"),
    [
        (19, "self-signed certificate in certificate chain", "?ssl_ca=PATH"),
        (20, "unable to get local issuer certificate", "?ssl_ca=PATH"),
        (62, "Hostname mismatch, certificate is not valid for 'h'.", "a name that is in the"),
        (10, "certificate has expired", "Replace the certificate"),
        # Python 3.13 asks for it. It was told to name the authority, which it had.
        (92, "CA cert does not include key usage extension", "Replace the certificate"),
    ],
)
def test_a_certificate_that_is_not_accepted(code: int, why: str, hint: str) -> None:
    error = ssl.SSLCertVerificationError(1, "no")
    error.verify_code, error.verify_message = code, why
    said = str(distrusted(error, "MySQL at h"))
    assert hint in said
    assert ".." not in said


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        (1040, "raise max_connections"),
        (1226, "raise it"),
        (1290, "to the primary"),
        (1153, "SET GLOBAL max_allowed_packet"),
        (1820, "ALTER USER"),
        (3118, "ACCOUNT UNLOCK"),
        (4151, "ACCOUNT UNLOCK"),
    ],
)
def test_what_to_do_about_a_limit_or_an_account(code: int, hint: str) -> None:
    said = failed(code, "Too many connections", "MySQL at h:3306").message
    assert said.startswith(f"MySQL at h:3306: Too many connections [{code}] (")
    assert hint in said


def test_a_read_only_server_leads_to_the_primary(server: MariaDB) -> None:
    server.command("SET GLOBAL read_only = 1")
    try:
        with lockfast.connect(server.url) as client, pytest.raises(EngineUnavailable) as caught:
            client.lock("x").acquire(timeout=2)
    finally:
        server.command("SET GLOBAL read_only = 0")
    assert "is read-only: connect to the primary" in str(caught.value)


@pytest.mark.parametrize(("size", "findings"), [(2**18 - 1, 1), (2**18, 0)])
def test_packets_for_one_request_are_enough(size: int, findings: int) -> None:
    """Batches are split, so only one request with the names of many held locks can be too large."""
    settings = {"version": "10.11.1-MariaDB", "max_allowed_packet": str(size)}
    found = guarantees(settings, {}, Address.of(parse("mysql://app@db/lockfast"))).findings
    assert len(found) == findings
    assert all("that holds many locks" in each.risk for each in found)
