"""What the page on ZooKeeper says of URLs, bounds, bases and nodes is so."""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

import lockfast
from lockfast import EngineRefused, EngineUnavailable, Level
from lockfast.engines.zookeeper import nodes
from lockfast.engines.zookeeper.engine import ZooKeeperEngine
from lockfast.engines.zookeeper.guarantees import SOUND
from lockfast.port import Ask, Shape
from tests.servers import ZooKeeper, wait_until
from tests.servers.certificates import Certificates

PAGE = Path(__file__).parents[2] / "docs" / "engines" / "zookeeper.md"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    files = Certificates(tmp_path_factory.mktemp("tls"))
    with ZooKeeper(
        tick=2000,
        certificates=files,
        config={"maxSessionTimeout": "40000"},
        properties={"znode.container.checkIntervalMs": "200"},  # a minute, as it comes
    ) as server:
        yield server


def test_the_documented_node_is_the_one_that_is_used() -> None:
    documented = re.findall(r"`(/lockfast/locks/[^`]*)`", PAGE.read_text("utf-8"))
    assert documented == [nodes.folder("/lockfast", "invoice:42")]
    assert f"{nodes.BUCKETS} buckets" in PAGE.read_text("utf-8")
    ask = Ask("0" * 32, Shape("invoice:42", 30.0), queue=True, not_after=0.0, payload=b"")
    assert f"`{nodes.stem(ask)[32:]}0000000007`" in PAGE.read_text("utf-8")


def test_the_page_names_the_version_that_the_finding_names() -> None:
    assert f"before {'.'.join(map(str, SOUND))} may forget" in PAGE.read_text("utf-8")


def test_the_documented_bounds_are_those_of_a_server_as_it_comes(server: ZooKeeper) -> None:
    with lockfast.connect(server.url) as client:
        found = client.guarantees()
        assert found.level is Level.FENCED
        assert "a ttl is 4 to 40 s" in found.sentence
        assert [finding.setting for finding in found.findings] == [
            "voting members = 1",
            "ACL of /lockfast = world:anyone",
        ]
        for ttl, bound in ((3, "at least 4 s"), (41, "at most 40 s")):
            with pytest.raises(EngineRefused, match=bound):
                client.lock("x", ttl=ttl).acquire(timeout=5)
        client.lock("x").acquire(timeout=5).release()  # with the ttl that a lock has by itself


def test_with_credentials_nobody_else_gets_at_a_lock(server: ZooKeeper) -> None:
    url = server.url.replace("//", "//locks:s3%2Fcret@")
    with lockfast.connect(f"{url}/private") as client, lockfast.connect(f"{url}/private") as other:
        lease = client.lock("x", ttl=4).acquire()
        assert other.lock("x", ttl=4).try_acquire() is None

        def wait() -> None:
            with other.lock("x", ttl=4):
                pass

        waiter = threading.Thread(target=wait)
        waiter.start()
        with lockfast.connect(f"{server.url}/private") as stranger:
            with pytest.raises(EngineRefused, match="NoAuthError: other credentials created"):
                stranger.lock("x", ttl=4).acquire(timeout=5)
            with pytest.raises(EngineRefused, match="NoAuthError: other credentials created"):
                stranger.lock("x").queue()
        lease.release()
        waiter.join(5)
        assert client.lock("x").queue() == []


@pytest.mark.parametrize("locked", [True, False], ids=["locked", "not locked yet"])
def test_doctor_tells_of_nodes_that_everybody_may_change(
    server: ZooKeeper, *, locked: bool
) -> None:
    url = f"{server.url}/seen-{locked}"
    private = url.replace("//", "//locks:s3%2Fcret@") + "-private"
    for each, open_to_all in ((url, True), (private, False)):
        with lockfast.connect(each) as client:
            if locked:
                client.lock("x", ttl=4).acquire(timeout=5).release()
            found = [finding.setting for finding in client.guarantees().findings]
        assert any("world:anyone" in setting for setting in found) is open_to_all
    if locked:  # and whoever may not even read that is told nothing wrong
        with lockfast.connect(f"{server.url}/seen-{locked}-private") as stranger:
            assert "world" not in str(stranger.guarantees())


def test_tls_is_spoken_and_the_server_is_checked(server: ZooKeeper) -> None:
    url = f"zookeeper://{server.host}:{server.secure_port}"
    assert server.certificates is not None
    ca = server.certificates.ca_path
    with lockfast.connect(f"{url}?ssl_ca={ca}") as client:
        client.lock("x", ttl=4).acquire(timeout=5).release()
    with (
        lockfast.connect(f"{url}?ssl=true") as client,
        pytest.raises(EngineUnavailable, match="certificate verify failed"),
    ):
        client.lock("x", ttl=4).acquire(timeout=0.5)
    with lockfast.connect(f"{url}?ssl=true&ssl_verify=false") as client:
        client.lock("x", ttl=4).acquire(timeout=5).release()


def test_with_a_client_certificate_nobody_else_gets_at_a_lock(tmp_path: Path) -> None:
    files = Certificates(tmp_path)
    server = ZooKeeper(certificates=files)
    server.configure(**{"ssl.clientAuth": "need"})
    with server:
        shown = f"ssl_cert={files.certificate_path}&ssl_key={files.key_path}"
        url = f"zookeeper://localhost:{server.secure_port}/mutual?ssl_ca={files.ca_path}&{shown}"
        stranger = KazooClient(server.address)
        stranger.start()
        try:
            with lockfast.connect(url) as client, client.lock("x", ttl=4) as lease:
                assert "world" not in str(client.guarantees())
                folder = nodes.folder("/mutual", "x")
                with pytest.raises(NoAuthError):
                    stranger.get_children(folder)
                with pytest.raises(NoAuthError):
                    stranger.delete(f"{folder}/{_child(client)}")
                with lockfast.connect(url) as other:
                    assert other.lock("x", ttl=4).try_acquire() is None
                lease.ensure_held()
            # Several identities share locks if the nodes name them all.
            everybody = url.replace("/mutual?", "/shared?") + "&acl=creator|world:anyone"
            with lockfast.connect(everybody) as client, client.lock("x", ttl=4):
                assert len(stranger.get_children(nodes.folder("/shared", "x"))) == 1
        finally:
            stranger.stop()
            stranger.close()


def _child(client: lockfast.Client) -> str:
    engine = client._session.engine
    assert isinstance(engine, ZooKeeperEngine)
    (mine,) = engine._own._mine.values()
    assert mine.child is not None
    return mine.child


def test_a_certificate_that_the_ensemble_does_not_check_is_said_to_be_of_no_use(
    server: ZooKeeper,
) -> None:
    files = server.certificates
    assert files is not None
    shown = f"ssl_cert={files.certificate_path}&ssl_key={files.key_path}"
    url = f"zookeeper://localhost:{server.secure_port}/unchecked?ssl_ca={files.ca_path}&{shown}"
    with (
        lockfast.connect(url) as client,
        pytest.raises(EngineRefused, match=r"ssl\.clientAuth=need.*acl=open"),
    ):
        client.lock("x", ttl=4).acquire(timeout=5)
    with lockfast.connect(f"{url}&acl=open") as client:
        client.lock("x", ttl=4).acquire(timeout=5).release()


@pytest.mark.parametrize("said", ["", "me", "x509:", ":CN=a", "open|"])
def test_an_acl_that_names_nobody_is_refused(said: str) -> None:
    with pytest.raises(ValueError, match="acl must be creator, open or scheme:id"):
        lockfast.connect(f"zookeeper://localhost?acl={said}")


def test_no_log_shows_a_password(server: ZooKeeper, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(1)
    url = server.url.replace("//", "//locks:hunter2@")
    with lockfast.connect(f"{url}/logged") as client:
        client.lock("x", ttl=4).acquire(timeout=5).release()
        (session,) = client._session.engine._pool.all()  # type: ignore[attr-defined]  # ZooKeeper's
        password = session._client._session_passwd
    assert "Login(...)" in caplog.text  # kazoo tells all that it sends
    assert "hunter2" not in caplog.text
    sent = [each for each in caplog.messages if each.startswith("Sending")]
    assert not any(repr(password)[2:-1] in each for each in sent)


def test_an_ensemble_that_was_set_back_refuses_who_has_seen_more_and_a_base_keeps_the_order() -> (
    None
):
    with ZooKeeper() as server, lockfast.connect(server.url) as before:
        for _ in range(5):
            with before.lock("x", ttl=2) as lease:
                highest = lease.token
        server.kill()
        shutil.rmtree(server.data_path / "version-2")
        server.start()
        with lockfast.connect(server.url) as after, after.lock("x", ttl=2) as lease:
            assert lease.token < highest  # what the base is for
        with pytest.raises(EngineUnavailable, match="no connection"):
            before.lock("x", ttl=2).acquire(timeout=3)
        url = f"{server.url}?token_base={highest}"
        with lockfast.connect(url) as after, after.lock("x", ttl=2) as lease:
            assert lease.token > highest


def test_the_token_base_lifts_every_new_token_and_a_lower_one_is_refused(
    server: ZooKeeper,
) -> None:
    base = 1_750_000_000_000_000
    with lockfast.connect(f"{server.url}/moved") as old:
        lease = old.lock("x", ttl=4).acquire()
        lease.release()
        with lockfast.connect(f"{server.url}/moved?token_base={base}") as new:
            lifted = new.lock("x", ttl=4).acquire(timeout=5)
            assert lifted.token > base
            assert [holder.ticket for holder in new.lock("x").holders()] == [lifted.token]
            lifted.release()
        with pytest.raises(EngineRefused, match=f"token_base={base}"):  # it was connected before
            old.lock("x", ttl=4).acquire(timeout=5)
    with (
        lockfast.connect(f"{server.url}/moved") as forgotten,
        pytest.raises(EngineRefused, match=f"token_base={base}"),
    ):
        forgotten.lock("x", ttl=4).acquire(timeout=5)


def test_a_base_that_cannot_be_meant_is_refused_before_it_stops_everybody(
    server: ZooKeeper,
) -> None:
    with pytest.raises(ValueError, match="more than a year ahead"):
        lockfast.connect(f"{server.url}/mistaken?token_base={2**52 - 1}")
    with lockfast.connect(f"{server.url}/mistaken?token_base=7") as wrong:
        wrong.lock("x", ttl=4).acquire(timeout=5).release()
    with lockfast.connect(f"{server.url}/mistaken") as client:
        with pytest.raises(EngineRefused, match="delete /mistaken/base"):
            client.lock("x", ttl=4).acquire(timeout=5)
        operator = KazooClient(server.address)
        operator.start()
        operator.set("/mistaken/base", b"1e3")
        with pytest.raises(EngineRefused, match="/mistaken/base does not contain a token base"):
            client.lock("x", ttl=4).acquire(timeout=5)
        operator.delete("/mistaken/base")
        operator.stop()
        operator.close()
        client.lock("x", ttl=4).acquire(timeout=5).release()


def test_a_name_leaves_nothing_behind(server: ZooKeeper) -> None:
    with lockfast.connect(f"{server.url}/tidy") as client:
        client.lock("x", ttl=4).acquire().release()
    onlooker = KazooClient(server.address)
    onlooker.start()
    folder = nodes.folder("/tidy", "x")
    wait_until(lambda: onlooker.exists(folder) is None, "its folder is gone")
    onlooker.stop()
    onlooker.close()


def test_an_option_that_nobody_knows_is_refused(server: ZooKeeper) -> None:
    with pytest.raises(ValueError, match="has no option ssl_caa"):
        lockfast.connect(f"{server.url}?ssl_caa=/ca.pem")
    with pytest.raises(ValueError, match="not a path"):
        lockfast.connect(f"{server.url}/a/../b")
