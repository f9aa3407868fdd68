"""What the page on etcd says about setups, roles and a full database is so."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import lockfast
from lockfast import EngineRefused, Level
from lockfast.engines.etcd.guarantees import promised
from tests.docs.rights import do_everything
from tests.servers import EtcdCluster
from tests.servers.etcd import encoded

PAGE = Path(__file__).parents[2] / "docs" / "engines" / "etcd.md"
SECRET = "s3cret"  # noqa: S105  # of a server that lives for a minute


@pytest.fixture(scope="module")
def alone() -> Iterator[EtcdCluster]:
    with EtcdCluster(1) as cluster:
        yield cluster


def test_one_member_is_fenced_and_says_what_is_missing(alone: EtcdCluster) -> None:
    with lockfast.connect(alone.url) as client:
        found = client.guarantees()
    assert found.level is Level.FENCED
    assert "voting members = 1" in [each.setting for each in found.findings]
    with (
        lockfast.connect(alone.url, require="consensus") as client,
        pytest.raises(lockfast.GuaranteeMissing, match="voting members"),
    ):
        client.lock("x").acquire(timeout=0)


def test_three_members_of_a_version_that_loses_leases_are_fenced() -> None:
    with EtcdCluster() as cluster:
        with lockfast.connect(cluster.url) as client:
            found = client.guarantees()
        assert [each for each in found.findings if each.setting.startswith("version = 3.4")]
        assert found.level is Level.FENCED  # Debian's 3.4.23
        assert "may end it early" in found.promise
        with (
            lockfast.connect(cluster.url, require="consensus") as client,
            pytest.raises(lockfast.GuaranteeMissing, match=r"version = 3\.4"),
        ):
            client.lock("x").acquire(timeout=0)


@pytest.mark.parametrize(
    ("voters", "versions", "level"),
    [
        (3, {"3.5.28"}, Level.CONSENSUS),
        (3, {"3.6.9", "3.7.1"}, Level.CONSENSUS),
        (3, {"3.5.28", "3.5.27"}, Level.FENCED),
        (3, {"3.3.10"}, Level.FENCED),
        (3, {"4.0.0"}, Level.FENCED),
        (3, {"who knows"}, Level.FENCED),
        (3, set(), Level.FENCED),
        (2, {"3.5.28"}, Level.FENCED),
    ],
)
def test_consensus_takes_a_majority_and_versions_without_known_bugs(
    voters: int, versions: set[str], level: Level
) -> None:
    assert promised(voters, versions)[0] is level


def test_the_page_names_the_versions_that_the_findings_name(alone: EtcdCluster) -> None:
    with lockfast.connect(alone.url) as client:
        found = client.guarantees()
    text = PAGE.read_text("utf-8")
    old = [each for each in found.findings if each.setting.startswith("version = 3.4")]
    assert len(old) == 3  # Debian's 3.4.23 has them all
    for each in old:
        for version in re.findall(r"3\.\d\.\d+", each.remedy):
            assert version in text


def test_a_full_database_refuses_claims_and_keeps_leases(alone: EtcdCluster) -> None:
    node = alone.nodes[0]
    with lockfast.connect(alone.url) as client:
        lease = client.lock("held", ttl=1.5).acquire()
        other = client.lock("released", ttl=1.5).acquire()
        node.post("maintenance/alarm", action="ACTIVATE", alarm="NOSPACE")
        try:
            with pytest.raises(EngineRefused, match="space exceeded"):
                client.lock("x", ttl=1.5).acquire(timeout=1)
            other.release()
            assert not lease.wait_lost(2.0)
            findings = client.guarantees().findings
            assert any("NOSPACE" in each.setting for each in findings)
        finally:
            node.post("maintenance/alarm", action="DEACTIVATE", alarm="NOSPACE")
        lease.release()
        client.lock("x", ttl=1.5).acquire(timeout=1).release()


def test_a_user_with_the_documented_permission_can_do_everything() -> None:
    assert "readwrite --prefix=true" in PAGE.read_text("utf-8")  # what the cluster's user has
    with EtcdCluster(1, password=SECRET) as cluster:
        do_everything(cluster.url)


def test_a_claim_is_found_where_the_page_says(alone: EtcdCluster) -> None:
    with lockfast.connect(alone.url) as client, client.lock("invoice:42/a%", ttl=5) as lease:
        key = f"lockfast/claim/invoice:42%2Fa%25/{lease.id}"
        (stored,) = alone.nodes[0].post("kv/range", key=encoded(key))["kvs"]
        assert int(stored["create_revision"]) == lease.token


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("etcd://h?ssl_cert_reqs=none", "has no option ssl_cert_reqs"),
        ("etcd://h/0", "has no path"),
        ("etcd+cluster://h", "there is no etcd"),
        ("etcd://h?token_base=-1", "token_base"),
    ],
)
def test_a_url_that_etcd_does_not_have_is_refused(url: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        lockfast.connect(url)


@pytest.mark.parametrize("option", ["ssl_ca_certs", "ssl_certfile", "ssl_keyfile"])
def test_options_of_tls_are_refused_where_nothing_is_encrypted(option: str) -> None:
    with pytest.raises(ValueError, match=f"{option} would have no effect: write etcds://"):
        lockfast.connect(f"etcd://localhost?{option}=/nowhere")


def test_a_certificate_without_its_key_is_refused() -> None:
    with pytest.raises(ValueError, match="go together"):
        lockfast.connect("etcds://localhost?ssl_certfile=/nowhere")


def test_a_password_without_tls_is_found() -> None:
    with (
        EtcdCluster(1, password=SECRET) as cluster,
        lockfast.connect(cluster.url) as client,
    ):
        assert "a password without TLS" in [each.setting for each in client.guarantees().findings]
    with (
        EtcdCluster(1, password=SECRET, tls=True) as cluster,
        lockfast.connect(cluster.url) as client,
    ):
        said = [each.setting for each in client.guarantees().findings]
        assert "a password without TLS" not in said
