"""API keys: how they are made, stored and compared."""

from __future__ import annotations

import hashlib
import tomllib
from typing import Any

import pytest

from lockfast.service import keys
from lockfast.service.keys import Keys, new_key, stored


def entry(name: str, key: str) -> dict[str, Any]:
    return tomllib.loads(stored(name, key))


def bearer(key: str) -> list[bytes]:
    return [f"Bearer {key}".encode()]


def test_a_key_is_random_and_only_its_hash_is_stored() -> None:
    key = new_key()
    assert key != new_key()
    assert len(key.removeprefix("lockfast_")) == 43  # 32 bytes in base64
    line = stored("billing", key)
    assert line == f'billing = "sha256:{hashlib.sha256(key.encode()).hexdigest()}"'
    assert key not in line


@pytest.mark.parametrize("name", ["a", "billing", "billing.2026-01", "0_x", "A" * 64])
def test_a_stored_line_is_read_again(name: str) -> None:
    key = new_key()
    found = Keys(entry(name, key))
    digest = found.find(bearer(key))
    assert digest is not None
    assert digest in found
    assert found.name(digest) == name


@pytest.mark.parametrize(
    "name", ["", "a b", "a\nb", "a\r\nx = 1", "-a", ".a", "ä", "a" * 65, "a\0", "\x1b[2J"]
)
def test_a_name_that_could_forge_a_line_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="letters, digits") as refused:
        stored(name, new_key())
    assert str(refused.value).isprintable()
    with pytest.raises(ValueError, match="letters, digits"):
        Keys({name: "sha256:" + 64 * "0"})


@pytest.mark.parametrize(
    "value", ["", "sha256:", "sha256:" + 63 * "0", "sha256:" + 64 * "G", 64 * "0", 5, [], {}]
)
def test_a_wrong_hash_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="64 hexadecimal digits"):
        Keys({"a": value})


def test_a_key_in_the_place_of_its_hash_is_refused_and_not_shown() -> None:
    key = new_key()
    with pytest.raises(ValueError, match="the key a must be stored") as refused:
        Keys({"a": key})
    assert key not in str(refused.value)


def test_one_key_under_two_names_is_refused() -> None:
    key = new_key()
    with pytest.raises(ValueError, match="a and b are the same key"):
        Keys(entry("a", key) | entry("b", key))


def test_too_many_keys_are_refused() -> None:
    many = {f"k{n}": f"sha256:{n:064x}" for n in range(keys.MOST + 1)}
    with pytest.raises(ValueError, match="at most 1000"):
        Keys(many)


def test_only_one_complete_header_is_a_key() -> None:
    key = new_key()
    found = Keys(entry("a", key) | entry("b", new_key()))
    assert found.find(bearer(key)) is not None
    assert found.find([b"bearer   " + key.encode()]) is not None
    for wrong in (
        [],
        bearer(key) * 2,
        bearer(new_key()),
        bearer(key[:-1]),
        bearer(key + "x"),
        bearer(key.upper()),
        [b"Basic " + key.encode()],
        [key.encode()],
        [b""],
        [b"Bearer "],
        [b"Bearer \xff\x00" * 10_000],
        bearer(f"{key}\r\n"[:-2] + " x"),
    ):
        assert found.find(wrong) is None, wrong


def test_a_password_that_was_hashed_by_hand_is_no_key() -> None:
    digest = hashlib.sha256(b"hunter2").hexdigest()
    assert Keys({"a": f"sha256:{digest}"}).find(bearer("hunter2")) is None


def test_every_key_is_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the time would tell which part of the keys was compared."""
    key = new_key()
    found = Keys(entry("a", key) | entry("b", new_key()) | entry("c", new_key()))
    compared: list[tuple[bytes, bytes]] = []

    def compare(one: bytes, two: bytes) -> bool:
        compared.append((one, two))
        return one == two

    monkeypatch.setattr("lockfast.service.keys.hmac.compare_digest", compare)
    assert found.find(bearer(key)) is not None
    assert len(compared) == 3
    assert all(len(each) == 32 for pair in compared for each in pair)
