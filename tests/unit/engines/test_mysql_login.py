"""The login at a MySQL server: what a client never sends, and greetings that no server sends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockfast.engines.mysql import login
from lockfast.engines.mysql.packets import BrokenProtocol
from lockfast.engines.mysql.results import ServerError

SECRET = b"secret"
OURS = (BrokenProtocol, ServerError, login.LoginRefused)
PLUGINS = [
    b"mysql_native_password",
    b"caching_sha2_password",
    b"client_ed25519",
    b"mysql_clear_password",
    b"sha256_password",
    b"dialog",
    b"",
]


def identity(**other: object) -> login.Identity:
    fields: dict[str, object] = {
        "user": "app",
        "password": b"secret",
        "database": "lockfast",
        "tls": login.Tls.NEVER,
        "trusted": False,
        "private": False,
    }
    return login.Identity(**(fields | other))  # type: ignore[arg-type]


def greeting(plugin: bytes, flags: int = 0xFFFFFFFF) -> bytes:
    low, high = (flags & 0xFFFF).to_bytes(2, "little"), (flags >> 16).to_bytes(2, "little")
    head = b"\x0a8.4.0\0" + bytes(4) + b"12345678\0" + low + b"\x2d" + bytes(2) + high
    return head + bytes([21]) + bytes(10) + b"123456789012\0" + plugin + b"\0"


def switch(plugin: bytes) -> bytes:
    return b"\xfe" + plugin + b"\0" + b"s" * 20 + b"\0"


@pytest.mark.parametrize("plugin", [b"mysql_clear_password", b"sha256_password"])
def test_no_password_goes_out_in_the_clear(plugin: bytes) -> None:
    steps = login.login(identity())
    next(steps)
    assert b"secret" not in (steps.send(greeting(plugin)) or b"")  # type: ignore[operator]
    next(steps)
    with pytest.raises(login.LoginRefused, match="asks for the password itself"):
        steps.send(switch(plugin))


@pytest.mark.parametrize("private", [False, True])
def test_the_long_way_of_caching_sha2_password_needs_protection(*, private: bool) -> None:
    """MySQL asks for the password itself if it does not remember it. MariaDB has no such plugin."""
    steps = login.login(identity(private=private))
    next(steps)
    response = steps.send(greeting(b"caching_sha2_password"))
    assert isinstance(response, bytes)
    assert b"secret" not in response
    next(steps)
    if not private:
        with pytest.raises(login.LoginRefused, match="verify_identity"):
            steps.send(b"\x01\x04")
        return
    assert steps.send(b"\x01\x04") == b"secret\0"
    next(steps)
    with pytest.raises(StopIteration):
        steps.send(b"\0\0\0\2\0\0\0")


def test_tls_that_is_not_verified_is_no_protection() -> None:
    steps = login.login(identity(tls=login.Tls.ALWAYS))
    next(steps)
    steps.send(greeting(b"caching_sha2_password"))
    assert next(steps) is login.StartTls.NOW
    next(steps)
    next(steps)
    with pytest.raises(login.LoginRefused, match="verify_identity"):
        steps.send(b"\x01\x04")


def test_a_server_cannot_take_tls_out_of_its_greeting() -> None:
    steps = login.login(identity(tls=login.Tls.ALWAYS))
    next(steps)
    with pytest.raises(login.LoginRefused, match="does not offer TLS"):
        steps.send(greeting(b"mysql_native_password", 0xFFFFFFFF & ~0x0800))


def test_an_unknown_plugin_is_named() -> None:
    steps = login.login(identity())
    next(steps)
    steps.send(greeting(b"mysql_native_password"))
    next(steps)
    with pytest.raises(login.LoginRefused, match="'auth_gssapi_client'"):
        steps.send(switch(b"auth_gssapi_client"))


@pytest.mark.parametrize("cut", range(1, len(greeting(b"")) - 1))
def test_a_greeting_that_was_cut_is_broken(cut: int) -> None:
    steps = login.login(identity())
    next(steps)
    with pytest.raises(BrokenProtocol):
        steps.send(greeting(b"mysql_native_password")[:cut])


@pytest.mark.parametrize(
    ("first", "error"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", BrokenProtocol),
        (b"\x0a", BrokenProtocol),
        (b"\x09" + greeting(b"")[1:], BrokenProtocol),
        (b"\xff", BrokenProtocol),
        (b"\xff\x10\x04Too many connections", ServerError),
        (greeting(b"x" * 65), BrokenProtocol),
        (greeting(b"", 0), login.LoginRefused),
    ],
)
def test_a_greeting_of_something_else_is_refused(first: bytes, error: type[Exception]) -> None:
    steps = login.login(identity())
    next(steps)
    with pytest.raises(error):
        steps.send(first)


def test_a_server_cannot_go_on_asking_for_ever() -> None:
    steps = login.login(identity())
    next(steps)
    steps.send(greeting(b"caching_sha2_password"))
    next(steps)
    for _ in range(login.ROUNDS - 1):
        assert steps.send(b"\x01\x03") is None
    with pytest.raises(BrokenProtocol, match="without an end"):
        steps.send(b"\x01\x03")


PACKETS = st.one_of(
    st.sampled_from(PLUGINS).map(greeting),
    st.sampled_from(PLUGINS).map(switch),
    st.sampled_from([b"\x01\x03", b"\x01\x04", b"\x01", b"\xfe", b"\xff\x15\x04no"]),
    st.binary(min_size=1, max_size=80),
    st.tuples(st.sampled_from(PLUGINS).map(greeting), st.binary(max_size=40)).map(
        lambda pair: pair[0][: 30 + len(pair[1])] + pair[1]
    ),
)


@given(
    st.sampled_from(PLUGINS), st.lists(PACKETS, min_size=1, max_size=6), st.sampled_from(login.Tls)
)
def test_no_server_makes_a_client_send_the_password_or_fail_otherwise(
    plugin: bytes, packets: list[bytes], tls: login.Tls
) -> None:
    steps = login.login(identity(tls=tls))
    waiting = [greeting(plugin), *packets]
    wanted = next(steps)
    try:
        while waiting:
            if isinstance(wanted, bytes):
                assert SECRET not in wanted
            wanted = next(steps) if wanted is not None else steps.send(waiting.pop(0))
    except (*OURS, StopIteration):
        return
