"""Hosts: a password that crosses a network is reported."""

from __future__ import annotations

import pytest

from lockfast.engines.hosts import exposed
from lockfast.engines.zookeeper.url import Address
from lockfast.url import parse


@pytest.mark.parametrize(
    ("url", "reported"),
    [
        ("redis://:secret@db.example", True),
        ("redis://:secret@127.0.0.1,db.example", True),
        ("redis://:secret@127.0.0.1.evil.example", True),
        ("redis://:secret@localhost", False),
        ("redis://:secret@127.3.4.5", False),
        ("redis://:secret@[::1]:7", False),
        ("redis://db.example", False),
    ],
)
def test_a_password_that_crosses_a_network_in_clear_is_reported(
    url: str,
    reported: bool,  # noqa: FBT001  # a value
) -> None:
    target = parse(url)
    assert bool(exposed(target, encrypted=False, remedy="")) is reported
    assert not exposed(target, encrypted=True, remedy="")


@pytest.mark.parametrize(
    ("url", "reported"),
    [
        ("zookeeper://u:secret@db.example", True),
        ("zookeeper://u:secret@db.example?ssl=false", True),
        ("zookeeper://u:secret@db.example?ssl=true", False),
        ("zookeeper://db.example", False),
    ],
)
def test_a_password_of_zookeeper_is_reported_unless_tls_is_on(
    url: str,
    reported: bool,  # noqa: FBT001  # a value
) -> None:
    assert bool(Address.of(parse(url)).weak) is reported
