"""etcd's transport: which member gets a request, and what it does when the login has expired."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Self, cast

import grpc
import pytest

from lockfast.engines.etcd.links import Credentials, Link, Links, Login
from lockfast.engines.etcd.messages import AUTHENTICATE, METHODS, STATUS, TIME_TO_LIVE
from lockfast.engines.etcd.protobuf import text
from lockfast.engines.etcd.transport import Transport
from lockfast.errors import EngineRefused
from lockfast.runtime.drive import drive
from lockfast.runtime.threads import Threads

TOKENS = "invalid auth token"


class Refusal(grpc.RpcError):
    """An error reply of etcd."""

    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.UNAUTHENTICATED

    def details(self) -> str:
        return f"etcdserver: {TOKENS}"


class Members(Transport):
    """A transport whose members are played by a function of address, method and token."""

    def __init__(self, answer: Callable[[str, str, str], bytes], username: str | None) -> None:
        login = Login(("one:1", "two:2"), username, lambda: "secret")
        super().__init__(login, Threads())
        self._links = self._streams = Links(login, self.now, self._made, bool)
        self._answer = answer
        self.asked: list[tuple[str, str]] = []

    @staticmethod
    def _made(address: str, credentials: Credentials) -> Link:
        calls = {method: (address, method) for method in METHODS}
        return cast("Link", SimpleNamespace(address=address, calls=calls, credentials=credentials))

    async def _send(self, call: tuple[str, str], request: bytes, timeout: float) -> bytes:
        del request, timeout
        self.asked.append(call)
        return self._answer(*call, dict(self._metadata).get("token", ""))

    async def _send_all(
        self, call: tuple[str, str], requests: Sequence[bytes], timeout: float
    ) -> list[bytes]:
        return [await self._send(call, each, timeout) for each in requests]

    def reset(self) -> None:
        raise NotImplementedError

    async def close(self) -> None:
        await super().close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        drive(self.close())


def test_several_requests_reach_a_member_that_was_never_asked_before() -> None:
    def answer(address: str, method: str, token: str) -> bytes:
        del method, token
        if len(members.asked) == 1:
            members.doubt(address)  # another thread has found that this member fails
        return address.encode()

    with Members(answer, None) as members:
        work = members.call_all(TIME_TO_LIVE, [b"", b"", b""], members.now() + 5.0)
        assert drive(work) == [b"one:1", b"two:2", b"two:2"]


class Logins:
    """Members whose first token is good for `uses` requests, and each later one for many more."""

    def __init__(self, *, uses: int) -> None:
        self._uses = uses
        self._left = 0
        self._number = 0

    def __call__(self, address: str, method: str, token: str) -> bytes:
        del address
        if method == AUTHENTICATE:
            self._number += 1
            self._left = self._uses if self._number == 1 else self._uses * 100
            return text(2, b"t%d" % self._number)
        if token != f"t{self._number}" or not self._left:
            raise Refusal
        self._left -= 1
        return token.encode()


def test_several_requests_are_sent_again_after_a_new_login() -> None:
    with Members(Logins(uses=1), "user") as members:
        work = members.call_all(TIME_TO_LIVE, [b"", b"", b""], members.now() + 5.0)
        assert drive(work) == [b"t1", b"t2", b"t2"]


def test_a_request_to_one_member_is_sent_again_after_a_new_login() -> None:
    with Members(Logins(uses=1), "user") as members:
        for token in (b"t1", b"t2"):
            work = members.call_on("two:2", STATUS, b"", members.now() + 5.0)
            assert drive(work) == token


def test_a_member_that_accepts_no_login_is_not_asked_for_ever() -> None:
    with Members(Logins(uses=0), "user") as members:
        with pytest.raises(EngineRefused, match=TOKENS):
            drive(members.call_on("two:2", STATUS, b"", members.now() + 5.0))
        assert len(members.asked) == 4  # two logins, each with one request
