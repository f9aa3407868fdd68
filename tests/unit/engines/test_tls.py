"""TLS files that are renewed while a client runs: the next connection uses them."""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

import lockfast
from lockfast.engines.etcd.links import GRACE, Credentials, Link, Links
from lockfast.engines.etcd.links import Login as EtcdLogin
from lockfast.engines.etcd.url import login_of as etcd_login
from lockfast.engines.redis.url import login_of as redis_login
from lockfast.engines.redlock.url import read as redlock
from lockfast.engines.remote.url import address_of
from lockfast.engines.tls import Tls
from lockfast.engines.zookeeper.url import Address
from lockfast.url import Target, parse
from tests.servers.certificates import Certificates

FILES = ("ca.crt", "server.crt", "server.key")
Current = Callable[[], object]


def _tls(found: Tls[ssl.SSLContext] | None) -> Current:
    assert found is not None
    return found.current


def _redis(target: Target) -> Current:
    return _tls(redis_login(target, target.options)[1].tls)


def _redlock(target: Target) -> Current:
    return _tls(redlock(target)[1].tls)


def _zookeeper(target: Target) -> Current:
    return _tls(Address.of(target).tls)


def _etcd(target: Target) -> Current:
    return etcd_login(target).credentials


def _remote(target: Target) -> Current:
    return _tls(address_of(target).tls)


ENGINES: dict[str, tuple[Callable[[Target], Current], tuple[str, str, str]]] = {
    "rediss": (_redis, ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")),
    "redlocks": (_redlock, ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")),
    "zookeeper": (_zookeeper, ("ssl_ca", "ssl_cert", "ssl_key")),
    "etcds": (_etcd, ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")),
    "lockfasts": (_remote, ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")),
}
every_engine = pytest.mark.parametrize("scheme", ENGINES)


@pytest.fixture(scope="module")
def issued(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Files of two authorities."""
    folders = (tmp_path_factory.mktemp("old"), tmp_path_factory.mktemp("new"))
    for folder in folders:
        Certificates(folder)
    return folders


@pytest.fixture
def folder(issued: tuple[Path, Path], tmp_path: Path) -> Path:
    """A client's folder, with files of the old authority."""
    renew(tmp_path, issued[0], *FILES)
    return tmp_path


def renew(folder: Path, source: Path, *names: str) -> None:
    """Replace files one by one, as cert-manager does."""
    for name in names:
        fresh = folder / "fresh"
        fresh.write_bytes((source / name).read_bytes())
        fresh.replace(folder / name)


def url_of(scheme: str, folder: Path) -> str:
    options = zip(ENGINES[scheme][1], FILES, strict=True)
    return f"{scheme}://h?" + "&".join(f"{option}={folder / name}" for option, name in options)


def opened(scheme: str, folder: Path) -> Current:
    return ENGINES[scheme][0](parse(url_of(scheme, folder)))


def accepted(client: object, source: Path) -> bool:
    """Tell whether a server that trusts only these files, and the client, accept each other."""
    assert isinstance(client, ssl.SSLContext)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(source / "ca.crt"))
    context.load_cert_chain(source / "server.crt", source / "server.key")
    context.verify_mode = ssl.CERT_REQUIRED
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(down, up, server_hostname="localhost"),
        context.wrap_bio(up, down, server_side=True),
    ]
    for _ in range(4):
        for end in tuple(ends):
            try:
                end.do_handshake()
                ends.remove(end)
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLError:
                return False
    return not ends


@every_engine
def test_files_that_stay_the_same_are_read_once(scheme: str, folder: Path) -> None:
    current = opened(scheme, folder)
    assert current() is current()


@every_engine
def test_a_renewed_certificate_is_used_by_the_next_connection(
    scheme: str, folder: Path, issued: tuple[Path, Path]
) -> None:
    old, new = issued
    current = opened(scheme, folder)
    before = current()
    renew(folder, new, *FILES)
    after = current()
    assert after is not before
    assert current() is after
    if scheme != "etcds":  # nobody can look into credentials of grpc
        assert accepted(before, old)
        assert not accepted(before, new)
        assert accepted(after, new)


def test_a_secret_of_kubernetes_is_renewed_by_a_link_to_another_folder(
    issued: tuple[Path, Path], tmp_path: Path
) -> None:
    for name in FILES:
        (tmp_path / name).symlink_to(Path("..data", name))
    (tmp_path / "..data").symlink_to(issued[0])
    current = opened("rediss", tmp_path)
    (tmp_path / "..fresh").symlink_to(issued[1])
    (tmp_path / "..fresh").replace(tmp_path / "..data")
    assert accepted(current(), issued[1])


@every_engine
def test_a_half_written_renewal_is_warned_of_once_and_the_last_good_files_serve(
    scheme: str, folder: Path, issued: tuple[Path, Path], caplog: pytest.LogCaptureFixture
) -> None:
    current = opened(scheme, folder)
    good = current()
    with caplog.at_level(logging.WARNING, "lockfast"):
        for source in (issued[1], issued[0]):
            renew(folder, source, "server.crt")
            assert [current() for _ in range(3)] == [good] * 3
            renew(folder, source, "server.key")
            after = current()
            assert after is not good
            good = after
    assert len(caplog.messages) == 2  # each renewal was half-written once
    for said in caplog.messages:
        assert str(folder / "server.crt") in said
        assert str(folder / "server.key") in said
        assert "BEGIN" not in said


def _missing(path: Path) -> None:
    path.unlink()


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("scheme", ["rediss", "etcds"])
@pytest.mark.parametrize("damage", [_missing, _empty, _cut, _folder])
def test_a_file_that_cannot_be_used_is_named_and_tried_again(
    scheme: str,
    damage: Callable[[Path], None],
    folder: Path,
    issued: tuple[Path, Path],
    caplog: pytest.LogCaptureFixture,
) -> None:
    current = opened(scheme, folder)
    for name in FILES:
        caplog.clear()
        good = current()
        damage(folder / name)
        assert current() is good
        assert current() is good
        (said,) = caplog.messages
        assert str(folder / name) in said
        if (folder / name).is_dir():
            (folder / name).rmdir()
        renew(folder, issued[0], name)
        assert current() is not good
        assert len(caplog.messages) == 1


@every_engine
def test_a_certificate_without_its_own_key_is_an_error_at_connect(
    scheme: str, folder: Path, issued: tuple[Path, Path]
) -> None:
    renew(folder, issued[1], "server.key")
    with pytest.raises(ValueError, match="put a certificate and its own key") as wrong:
        lockfast.connect(url_of(scheme, folder))
    assert str(folder / "server.key") in str(wrong.value)


class Channel:
    """A channel of gRPC, of which only the state is of interest."""

    def __init__(self) -> None:
        self.ready = False
        self.closed = False
        self._channel = self

    def check_connectivity_state(self, _: object) -> int:
        return 2 if self.ready else 3

    def unary_unary(self, *_: object) -> None:
        """Make no call."""


class Bench:
    """Links with such channels, and a clock."""

    def __init__(self, folder: Path) -> None:
        target = parse(url_of("etcds", folder))
        self.clock = 0.0
        self.made: list[Channel] = []
        self.links = Links(etcd_login(target), lambda: self.clock, self._make, self._close)

    def _make(self, address: str, credentials: Credentials) -> Link:
        self.made.append(Channel())
        return Link(address, self.made[-1], credentials)

    def _close(self, link: Link) -> None:
        link.channel.closed = True


def test_a_channel_of_etcd_is_replaced_when_it_has_to_connect_with_other_files(
    folder: Path, issued: tuple[Path, Path]
) -> None:
    bench = Bench(folder)
    first = bench.links.to("a")
    assert bench.links.to("a") is first
    first.channel.ready = True
    renew(folder, issued[1], *FILES)
    assert bench.links.to("a") is first  # its connection is not given up
    first.channel.ready = False
    second = bench.links.to("a")
    assert second is not first
    assert bench.links.to("a") is second
    assert not first.channel.closed  # others may have requests on it
    bench.clock += GRACE
    assert bench.links.to("a") is second
    assert [each.closed for each in bench.made] == [True, False]


def test_a_channel_that_was_replaced_a_moment_ago_is_closed_with_the_client(
    folder: Path, issued: tuple[Path, Path]
) -> None:
    bench = Bench(folder)
    bench.links.to("a")
    renew(folder, issued[1], *FILES)
    bench.links.to("a")
    assert [link.channel for link in bench.links.clear()] == bench.made[::-1]
    assert bench.links.clear() == []


def test_of_two_threads_that_open_a_channel_at_once_both_use_the_same(folder: Path) -> None:
    bench = Bench(folder)
    make = bench.links._make
    quicker: list[Link] = []

    def slow(address: str, credentials: Credentials) -> Link:
        bench.links._make = make
        quicker.append(bench.links.to(address))
        return make(address, credentials)

    bench.links._make = slow
    assert bench.links.to("a") is quicker[0]
    bench.clock += GRACE
    bench.links.to("a")
    assert [each.closed for each in bench.made] == [False, True]


def test_a_thread_that_comes_late_uses_the_channel_that_another_has_put_in_place(
    folder: Path, issued: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(folder)
    bench.links.to("a")
    renew(folder, issued[1], *FILES)
    credentials = EtcdLogin.credentials
    quicker: list[Link] = []

    def slow(login: EtcdLogin) -> Credentials:
        monkeypatch.setattr(EtcdLogin, "credentials", credentials)
        quicker.append(bench.links.to("a"))
        return credentials(login)

    monkeypatch.setattr(EtcdLogin, "credentials", slow)
    assert bench.links.to("a") is quicker[0]
    assert len(bench.made) == 2


def test_without_tls_a_channel_of_etcd_is_never_asked_for_its_state() -> None:
    links = Links(
        EtcdLogin(("a",)), lambda: 0.0, lambda to, with_: Link(to, Channel(), with_), bool
    )
    link = links.to("a")
    link.channel._channel = None
    assert links.to("a") is link
