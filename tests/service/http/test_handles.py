"""Handles: every replica with the key verifies them, and nobody else makes them."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from pathlib import Path

import pytest

from lockfast.service.config import Config
from lockfast.service.config_file import handle_keys
from lockfast.service.credentials import load
from lockfast.service.http.messages import LONGEST_HANDLE
from lockfast.service.http.seal import BadHandle, ForeignHandle, Seal, Sealed, new_key
from tests.servers import Redis, wait_until
from tests.service.http.site import Site, replica

KEYS = [new_key(), new_key()]
SEALED = Sealed("0" * 32, "a", 30.0, 1, 1, 1, 7, granted=True, keyed=False)


def test_a_handle_is_opened_by_every_seal_with_its_key() -> None:
    handle = Seal(KEYS[:1]).close(SEALED, "billing")
    assert Seal(KEYS[:1]).open(handle, "billing") == SEALED
    assert Seal(KEYS[::-1]).open(handle, "billing") == SEALED
    with pytest.raises(ForeignHandle, match="if they have the same handle_key_file"):
        Seal(KEYS[1:]).open(handle, "billing")


def test_a_handle_is_of_one_client() -> None:
    seal = Seal(KEYS)
    handle = seal.close(SEALED, "billing")
    for subject in ("", "billing2", "Billing"):
        with pytest.raises(ForeignHandle):
            seal.open(handle, subject)


def test_no_bit_of_a_handle_can_be_changed() -> None:
    seal = Seal(KEYS)
    handle = seal.close(SEALED, "")
    raw = urlsafe_b64decode(handle + "=" * (-len(handle) % 4))
    for place in range(len(raw)):
        for bit in (1, 128):
            forged = raw[:place] + bytes([raw[place] ^ bit]) + raw[place + 1 :]
            with pytest.raises(ForeignHandle):
                seal.open(urlsafe_b64encode(forged).rstrip(b"=").decode(), "")


def test_a_part_of_a_handle_is_none() -> None:
    seal = Seal(KEYS)
    handle = seal.close(SEALED, "")
    for length in range(len(handle)):
        with pytest.raises((BadHandle, ForeignHandle)):
            seal.open(handle[:length], "")
    for wrong in ("é", "=", "a" * (LONGEST_HANDLE + 1), "\ud800"):
        with pytest.raises(BadHandle):
            seal.open(wrong, "")


def test_a_handle_of_another_version_is_none() -> None:
    seal = Seal(KEYS)
    other = Seal(KEYS)
    body = b"\x91\x01"
    import lockfast.service.http.seal as module  # noqa: PLC0415

    raw = module._tag(other._handles[0], "", body) + body
    with pytest.raises(BadHandle, match="version"):
        seal.open(urlsafe_b64encode(raw).rstrip(b"=").decode(), "")


def test_the_longest_handle_is_accepted() -> None:
    name = "\x00" * 512
    sealed = Sealed("0" * 32, name, 86_399.9, 3, 2**31 - 2, 2**31 - 2, 2**53 - 1, True, True)  # noqa: FBT003
    assert len(Seal(KEYS).close(sealed, "s" * 64)) <= LONGEST_HANDLE


def test_an_id_depends_on_client_key_and_lock() -> None:
    seal = Seal(KEYS)
    ids = {
        seal.derived(*each)
        for each in (
            ("a", "b", "c"),
            ("ab", "", "c"),
            ("a", "", "bc"),
            ("", "ab", "c"),
            ("a", "b", "d"),
        )
    }
    assert len(ids) == 5
    assert Seal(KEYS[:1]).derived("a", "b", "c") in ids
    assert Seal(KEYS[1:]).derived("a", "b", "c") not in ids


def test_a_forged_or_cut_handle_is_refused(site: Site) -> None:
    handle = site.acquire("a").body["handle"]
    flipped = ("B" if handle[0] == "A" else "A") + handle[1:]
    for wrong, status in (
        (flipped, 403),
        (handle[:-8], 403),
        (handle[:20], 400),
        ("", 400),
        ("!", 400),
        ("a" * 1_025, 400),
    ):
        for path, body in (
            ("/v1/release", {"handle": wrong}),
            ("/v1/renew", {"handles": [handle, wrong]}),
            ("/v1/acquire", {"handle": wrong}),
        ):
            assert site.post(path, body).status == status, (path, wrong)
    assert site.release(handle)


def test_a_handle_that_is_replayed_after_its_release_harms_nobody(site: Site, other: Site) -> None:
    """A proxy's log has it, for example. It stands for a claim that is over, and for no other."""
    for keyed in ("", "a-key"):
        replayed = site.acquire("replayed", key=keyed).body["handle"]
        assert site.release(replayed)
        held = site.acquire("replayed").body
        for place in (site, other):
            assert place.renew(replayed) == [{"state": "gone"}]
            assert place.go_on(replayed, wait=1.0).status == 410
            assert not place.release(replayed)
        assert site.renew(held["handle"])[0]["token"] == held["token"]
        assert site.release(held["handle"])


def test_a_handle_of_a_lost_lease_does_not_release_the_next_one(site: Site) -> None:
    """Both have one `Idempotency-Key`, such as the number of a job that was started again."""
    lost = site.acquire("again", ttl=0.2, key="job-7").body
    wait_until(lambda: not site.who("again"), "it is lost")
    held = site.acquire("again", key="job-7").body
    assert held["token"] != lost["token"]
    assert not site.release(lost["handle"])
    (renewed,) = site.renew(held["handle"])
    assert (renewed["state"], renewed["token"]) == ("held", held["token"])
    assert site.release(held["handle"])


def test_without_a_key_file_a_handle_is_of_one_replica(redis: Redis) -> None:
    with replica(redis.url) as one, replica(redis.url) as two:
        handle = one.site.acquire("b").body["handle"]
        assert two.site.post("/v1/release", {"handle": handle}).status == 403
        assert one.site.release(handle)


def test_all_workers_have_one_key(redis: Redis) -> None:
    with replica(redis.url, "workers = 3\n") as several:
        handle = several.site.acquire("c").body["handle"]
        states = {several.site.renew(handle)[0]["state"] for _ in range(20)}  # a connection each
        assert states == {"held"}
        assert several.site.release(handle)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "1 to 4 lines"),
        ("short\n", "fewer than 32"),
        (f"{'x' * 32}\nshort", "fewer than 32"),
        ("\n".join(["x" * 32] * 5), "1 to 4 lines"),
    ],
)
def test_a_key_file_that_cannot_be_used_is_an_error(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "handle.key"
    path.write_text(text, "ascii")
    with pytest.raises(ValueError, match=why):
        load(Config(handle_key_file=str(path)))
    with pytest.raises(ValueError, match="missing"):
        load(Config(handle_key_file=str(tmp_path / "missing")))


def test_a_key_file_has_the_present_key_and_earlier_ones(tmp_path: Path) -> None:
    path = tmp_path / "handle.key"
    path.write_text(f"{'n' * 32}\n\n  {'o' * 44}\r\n", "ascii")
    path.chmod(0o644)
    assert handle_keys(str(path)) == (b"n" * 32, b"o" * 44)
    found = load(Config(handle_key_file=str(path)))
    assert found.handle_keys == (b"n" * 32, b"o" * 44)
    assert "every user of this machine can read it" in found.risks[0]
