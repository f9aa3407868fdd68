"""URLs."""

from __future__ import annotations

import pytest

import lockfast
from lockfast.url import parse


def test_hosts_credentials_path_and_options() -> None:
    target = parse("redis+sentinel://me:p%40ss@h1:1,h2,[::1]:3/main/2?db=4")
    assert target.scheme == "redis+sentinel"
    assert target.hosts == (("h1", 1), ("h2", None), ("::1", 3))
    assert (target.username, target.password) == ("me", "p@ss")
    assert (target.path, target.options) == ("/main/2", {"db": "4"})


def test_a_password_is_not_shown() -> None:
    assert "secret" not in repr(parse("redis://:secret@h"))


def test_without_an_argument_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCKFAST_URL", "memory://")
    with lockfast.connect() as client, client.lock("x") as lease:
        assert lease.token > 0


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("", "no URL"),
        ("localhost:6379", "not a URL"),
        ("redis://h:port", "not a port"),
        ("redis://h?tll=3", "does not know tll"),
        ("redis://h1,h2", "redis\\+cluster"),
        ("redis+sentinel://h1", "name the primary"),
        ("redis+cluster://h1/3", "not a database"),
        ("redis://h/x", "not a database"),
        ("redis://h?token_base=-1", "token_base"),
        ("mysql://h", "no engine for mysql"),
        ("memory://h?x=1", "does not know x"),
    ],
)
def test_what_is_wrong_is_said(url: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        lockfast.connect(url)
