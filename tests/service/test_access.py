"""Who may connect: keys and TLS, as a client and as a stranger see them."""

from __future__ import annotations

import asyncio
import logging
import socket as sockets
import ssl
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Self

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

import lockfast
import lockfast.aio
from lockfast.engines.memory import Memory
from lockfast.engines.remote import messages
from lockfast.engines.remote.identity import new_secret
from lockfast.engines.remote.messages import Hello
from lockfast.errors import EngineRefused
from lockfast.runtime.aio import Aio
from lockfast.service.config import Config
from lockfast.service.credentials import load
from lockfast.service.keys import new_key, stored
from lockfast.service.replica import Replica
from lockfast.service.server import Server
from tests.servers.certificates import Certificates
from tests.servers.process import wait_until
from tests.service.peers import Held

SOON = 10.0
Headers = Sequence[tuple[str, str]]
KEY, OTHER = new_key(), new_key()


def keys(**named: str) -> dict[str, str]:
    """Return names and hashes, as a configuration has them."""
    return {name: stored(name, key).partition('"')[2].rstrip('"') for name, key in named.items()}


class Guarded:
    """A server with keys, TLS or both, in a thread of this process."""

    def __init__(self, config: Config) -> None:
        self.now = config
        self.held = Held(Memory())
        self.server = Server(Replica(self.held.made, Aio()), config, lambda: self.now)
        self.host, self.port = self.server.address
        self._thread = threading.Thread(target=self.server.run)

    def __enter__(self) -> Self:
        self._thread.start()
        wait_until(lambda: self.server.started, "it serves")
        return self

    def __exit__(self, *error: object) -> None:
        self.server.should_exit = self.server.force_exit = True
        self._thread.join(20)
        assert not self._thread.is_alive()

    def reload(self, config: Config) -> None:
        self.now = config
        self.server.handle_hang_up(1, None)

    def status(self, headers: Headers = ()) -> int:
        """Return the status of a WebSocket's handshake."""
        try:
            with self.socket(headers):
                return 101
        except InvalidStatus as refused:
            return refused.response.status_code

    @contextmanager
    def socket(self, headers: Headers) -> Iterator[ClientConnection]:
        host = f"[{self.host}]" if ":" in self.host else self.host
        url = f"ws://{host}:{self.port}/v1/connect"
        with connect(url, compression=None, additional_headers=headers) as found:
            yield found

    def raw(self) -> sockets.socket:
        return sockets.create_connection((self.host, self.port), timeout=SOON)

    def get(self, path: str, *headers: str) -> int:
        lines = (
            headers
            if any(each.startswith("Host") for each in headers)
            else (
                "Host: localhost",
                *headers,
            )
        )
        with self.raw() as sock:
            sock.sendall("\r\n".join((f"GET {path} HTTP/1.1", *lines, "", "")).encode())
            return int(sock.recv(4096).split()[1])

    def certificate(self) -> bytes:
        """Return the certificate that a new connection gets."""
        context = ssl._create_unverified_context()  # noqa: S323  # it compares it itself
        with self.raw() as sock, context.wrap_socket(sock) as tls:
            found = tls.getpeercert(binary_form=True)
            assert found is not None
            return found


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("tls"))


def secured(files: Certificates, **more: object) -> Config:
    return replace(
        Config(port=0, ssl_certfile=str(files.certificate_path), ssl_keyfile=str(files.key_path)),
        **more,  # type: ignore[arg-type]  # as `replace` takes them
    )


def bearer(key: str, **more: str) -> Headers:
    return [("Authorization", f"Bearer {key}"), *more.items()]


def test_only_a_client_with_a_key_gets_in() -> None:
    with Guarded(Config(port=0, keys=keys(a=KEY, b=OTHER))) as guarded:
        assert guarded.status(bearer(KEY)) == 101
        assert guarded.status(bearer(OTHER)) == 101
        assert guarded.status() == 401
        assert guarded.status(bearer(new_key())) == 401
        assert guarded.status(bearer(KEY, Origin="https://evil.example")) == 403
        twice = [("Authorization", f"Bearer {KEY}")] * 2
        with pytest.raises(InvalidStatus) as refused, guarded.socket(twice):
            pass
        assert refused.value.response.status_code == 401


def test_health_needs_no_key() -> None:
    with Guarded(Config(port=0, keys=keys(a=KEY))) as guarded:
        assert guarded.get("/livez") == 200
        assert guarded.get("/readyz", "Host: replica-1.example") == 200  # as Kubernetes asks
        assert guarded.get("/livez", "Origin: https://evil.example") == 403


def test_without_keys_only_this_machine_is_served() -> None:
    with Guarded(Config(port=0)) as guarded:
        assert guarded.status() == 101
        assert guarded.status(bearer(KEY)) == 101  # nothing asks for it
        assert guarded.get("/livez", "Host: replica-1.example") == 403


def test_a_connection_serves_one_request() -> None:
    """A second one could begin, and never end."""
    with Guarded(Config(port=0)) as guarded, guarded.raw() as sock:
        sock.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        sock.settimeout(SOON)
        told = b"".join(iter(lambda: sock.recv(4096), b""))
        assert told.endswith(b"ok\n")
        assert b"\r\nconnection: close" in told.lower()  # uvicorn's own limit is five seconds


def opened(url: str, *, mode: str, timeout: float = SOON) -> None:
    """Take a lock."""
    if mode == "threads":
        with lockfast.connect(url) as client, client.lock("a", timeout=timeout):
            return

    async def main() -> None:
        async with lockfast.aio.connect(url) as client, client.lock("a", timeout=timeout):
            pass

    asyncio.run(main())


@pytest.mark.parametrize("mode", ["threads", "asyncio"])
def test_our_client_shows_its_key_and_checks_the_certificate(
    mode: str, files: Certificates, tmp_path: Path
) -> None:
    secret = tmp_path / "key"
    secret.write_text(f"{KEY}\n", "utf-8")
    with Guarded(secured(files, keys=keys(a=KEY))) as guarded:
        at = f"127.0.0.1:{guarded.port}"
        ca = f"ssl_ca_certs={files.ca_path}"
        opened(f"lockfasts://:{KEY}@{at}?{ca}", mode=mode)
        opened(f"lockfasts://{at}?{ca}&password_file={secret}", mode=mode)
        with pytest.raises(EngineRefused, match="needs an API key") as missing:
            opened(f"lockfasts://{at}?{ca}", mode=mode)
        wrong = new_key()
        with pytest.raises(EngineRefused, match="rejects the API key") as rejected:
            opened(f"lockfasts://:{wrong}@{at}?{ca}", mode=mode)
        for error in (missing, rejected):
            assert at in str(error.value)
            assert "password" in str(error.value)  # what to do
            assert wrong not in str(error.value)
        for url in (f"lockfasts://:{KEY}@{at}", f"lockfast://:{KEY}@{at}"):
            with pytest.raises(lockfast.EngineUnavailable) as failed:
                opened(url, mode=mode, timeout=1.0)
            assert KEY not in str(failed.value)


def test_a_password_and_a_wrong_key_are_in_no_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    wrong = new_key()
    with caplog.at_level(logging.DEBUG), Guarded(Config(port=0, keys=keys(a=KEY))) as guarded:
        for key in (KEY, wrong):
            for mode in ("threads", "asyncio"):
                try:
                    opened(f"lockfast://:{key}@127.0.0.1:{guarded.port}", mode=mode)
                except EngineRefused:
                    assert key == wrong
        guarded.reload(Config(port=0, keys=keys(b=OTHER)))
        wait_until(lambda: "was reloaded" in caplog.text, "it reloads")
    ours = [each for each in caplog.records if not each.name.startswith("websockets.client")]
    text = "\n".join(each.getMessage() for each in ours)
    assert KEY not in text
    assert wrong not in text


def test_a_reload_ends_the_connections_of_removed_keys_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with (
        caplog.at_level(logging.WARNING, "lockfast"),
        Guarded(Config(port=0, keys=keys(a=KEY, b=OTHER))) as guarded,
        guarded.socket(bearer(KEY)) as removed,
        guarded.socket(bearer(OTHER)) as kept,
    ):
        new = new_key()
        guarded.reload(Config(port=0, keys=keys(b=OTHER, c=new)))
        with pytest.raises(ConnectionClosed) as closed:
            removed.recv(SOON)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1008
        assert "API key" in closed.value.rcvd.reason
        assert guarded.status(bearer(KEY)) == 401
        assert guarded.status(bearer(new)) == 101
        assert kept.ping().wait(SOON)
        assert "API keys: 2, connections ended: 1" in caplog.text


def test_the_first_key_ends_the_connections_that_have_none() -> None:
    with Guarded(Config(port=0)) as guarded, guarded.socket(()) as stranger:
        guarded.reload(Config(port=0, keys=keys(a=KEY)))
        with pytest.raises(ConnectionClosed):
            stranger.recv(SOON)
        assert guarded.status() == 401


def test_a_reload_that_fails_changes_nothing(
    files: Certificates, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    with Guarded(secured(files, keys=keys(a=KEY))) as guarded:
        url = f"lockfasts://:{KEY}@127.0.0.1:{guarded.port}?ssl_ca_certs={files.ca_path}"
        with caplog.at_level(logging.WARNING, "lockfast"):
            for broken, why in (
                (secured(files, keys={"a": "nonsense"}), "hexadecimal"),
                (secured(files, ssl_keyfile=str(tmp_path / "none")), "No such file"),
                (secured(files, ssl_certfile=None), "ssl_keyfile needs"),
                (Config(port=0), "TLS cannot be switched"),
            ):
                caplog.clear()
                guarded.reload(broken)
                wait_until(lambda: "the old one stays" in caplog.text, "it says so")
                assert why in caplog.text
                opened(url, mode="threads")


def test_a_reload_names_what_only_a_restart_changes(caplog: pytest.LogCaptureFixture) -> None:
    with Guarded(Config(port=0, keys=keys(a=KEY))) as guarded:
        new = Config(url="redis://:hunter2@h", host="0.0.0.0", port=1, keys=keys(a=KEY))  # noqa: S104
        with caplog.at_level(logging.WARNING, "lockfast"):
            guarded.reload(new)
            wait_until(lambda: "was reloaded" in caplog.text, "it reloads")
        for name in ("url", "host", "port"):
            assert f"{name} has changed in the configuration: restart" in caplog.text
        assert "hunter2" not in caplog.text
        assert guarded.status(bearer(KEY)) == 101


def test_new_connections_get_the_new_certificate(tmp_path: Path) -> None:
    files = Certificates(tmp_path)
    config = secured(files)
    with Guarded(config) as guarded:
        before, old = guarded.certificate(), ssl.create_default_context(cafile=files.ca_path)
        with guarded.raw() as sock, old.wrap_socket(sock, server_hostname="localhost") as kept:
            files.issue()
            assert guarded.certificate() == before  # not before the reload
            guarded.reload(config)
            wait_until(lambda: guarded.certificate() != before, "the new one is shown")
            url = f"lockfasts://127.0.0.1:{guarded.port}?ssl_ca_certs={files.ca_path}"
            opened(url, mode="threads")
            kept.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert kept.recv(4096).startswith(b"HTTP/1.1 200")


@pytest.mark.filterwarnings("ignore:.*TLSv1_1 is deprecated")
@pytest.mark.parametrize(
    ("version", "accepted"),
    [
        (ssl.TLSVersion.TLSv1_1, False),
        (ssl.TLSVersion.TLSv1_2, True),
        (ssl.TLSVersion.TLSv1_3, True),
    ],
)
def test_only_modern_tls_is_spoken(
    files: Certificates, version: ssl.TLSVersion, *, accepted: bool
) -> None:
    context = ssl.create_default_context(cafile=files.ca_path)
    context.set_ciphers("ALL:@SECLEVEL=0")  # else this client would not offer 1.1
    context.minimum_version = context.maximum_version = version
    with Guarded(secured(files)) as guarded, guarded.raw() as sock:
        if accepted:
            with context.wrap_socket(sock, server_hostname="localhost") as tls:
                assert tls.version() == version.name.replace("_", ".")
        else:
            with pytest.raises(ssl.SSLError):
                context.wrap_socket(sock, server_hostname="localhost")


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({}, r"'0\.0\.0\.0' .* needs TLS .* and API keys"),
        ({"keys": keys(a=KEY)}, r"needs TLS \([^)]*\)\. "),
        ({"behind_proxy": True}, r"needs API keys \("),
        ({"tls": True}, r"needs API keys \("),
        ({"tls": True, "behind_proxy": True, "keys": keys(a=KEY)}, "use one of them"),
        ({"host": "127.0.0.1", "behind_proxy": True}, r"through the proxy, so it needs API keys"),
        ({"host": ""}, "is empty"),
    ],
)
def test_strangers_are_kept_out_before_anything_listens(
    files: Certificates, more: dict[str, object], why: str
) -> None:
    base = secured(files) if more.pop("tls", False) else Config(port=0)
    config = replace(base, **({"host": "0.0.0.0"} | more))  # type: ignore[arg-type]  # noqa: S104
    with pytest.raises(ValueError, match=why):
        Server(Replica.of("memory://"), config)


@pytest.mark.parametrize("proxied", [False, True])
def test_other_machines_are_served_with_keys_and_tls(files: Certificates, *, proxied: bool) -> None:
    base = Config(port=0, behind_proxy=True) if proxied else secured(files)
    config = replace(base, host="0.0.0.0", keys=keys(a=KEY))  # noqa: S104
    with Guarded(config) as guarded:
        scheme, more = (
            ("lockfast", "") if proxied else ("lockfasts", f"?ssl_ca_certs={files.ca_path}")
        )
        opened(f"{scheme}://:{KEY}@localhost:{guarded.port}{more}", mode="threads")


def test_ipv6() -> None:
    with Guarded(Config(host="::1", port=0, keys=keys(a=KEY))) as guarded:
        opened(f"lockfast://:{KEY}@[::1]:{guarded.port}", mode="threads")


def test_a_name_with_two_addresses_has_one_port() -> None:
    with Guarded(Config(host="localhost", port=0)) as guarded:
        ports = {each.getsockname()[1] for each in guarded.server._sockets}
        assert ports == {guarded.port}


def test_an_expired_certificate_is_refused(tmp_path: Path) -> None:
    files = Certificates(tmp_path)
    files.issue(days=0)

    def refused() -> str:
        try:
            load(secured(files))
        except ValueError as error:
            return str(error)
        return ""

    wait_until(lambda: bool(refused()), "it expires")
    assert "certificate has expired" in refused()
    assert str(files.certificate_path) in refused()


def test_the_end_of_a_certificate_is_known_and_logged_once(
    files: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    config = secured(files)
    expires = load(config).expires
    assert expires is not None
    assert 29.0 < (expires - time.time()) / 86_400 < 30.1
    with caplog.at_level(logging.WARNING, "lockfast"), Guarded(config) as guarded:
        assert "expired" not in caplog.text
        server = guarded.server
        server.credentials = replace(server.credentials, expires=time.time() - 1.0)
        wait_until(lambda: "the certificate has expired" in caplog.text, "it says so")
        time.sleep(0.5)
        assert caplog.text.count("the certificate has expired") == 1


@pytest.mark.parametrize(
    ("which", "mode", "why"),
    [
        ("key", 0o644, "has a private key, and every user"),
        ("key", 0o602, "can be changed by every user"),
        ("keys", 0o646, "can be changed by every user"),
        ("key", 0o640, ""),
        ("keys", 0o644, ""),
    ],
)
def test_a_file_that_all_users_can_read_or_change_is_named(
    tmp_path: Path, which: str, mode: int, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    files = Certificates(tmp_path)
    path = tmp_path / "keys.toml"
    path.write_text(stored("a", KEY), "utf-8")
    files.key_path.chmod(0o600)
    path.chmod(0o600)
    (path if which == "keys" else files.key_path).chmod(mode)
    with (
        caplog.at_level(logging.WARNING, "lockfast"),
        Guarded(secured(files, keys_file=str(path))),
    ):
        assert why in caplog.text
        assert bool(why) == bool(caplog.records)
        assert KEY not in caplog.text


def test_a_key_that_crosses_a_network_unencrypted_is_a_finding() -> None:
    with Guarded(Config(port=0, keys=keys(a=KEY))) as guarded:
        url = f"lockfast://:{KEY}@127.0.0.1:{guarded.port}"
        with lockfast.connect(url) as client:
            assert not client.guarantees().findings
        # The second host is never reached.
        with lockfast.connect(f"{url},192.0.2.1:1") as client:
            (finding,) = client.guarantees().findings
    assert "without TLS" in finding.setting
    assert "lockfasts://" in finding.remedy


def test_a_reload_while_it_drains_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("lockfast.service.server.DRAINING", 0.5)
    with (
        caplog.at_level(logging.WARNING, "lockfast"),
        Guarded(Config(port=0, keys=keys(a=KEY))) as guarded,
        guarded.socket(bearer(KEY)) as sock,
    ):
        sock.send(messages.encode(Hello(messages.VERSION, new_secret(), 1)))
        guarded.server.should_exit = True
        wait_until(lambda: guarded.server._replica.draining, "it drains")
        guarded.reload(Config(port=0, keys=keys(b=OTHER)))
        with pytest.raises(ConnectionClosed) as closed:
            all(sock.recv(SOON) for _ in range(100))
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code != 1008
    assert "reloaded" not in caplog.text
