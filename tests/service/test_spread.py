"""The clients of a replica that dies connect to others over some time, and not all at once."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable

import pytest

import lockfast
from lockfast import aio
from lockfast.engines.remote import messages
from lockfast.engines.remote.identity import Identity
from lockfast.engines.remote.line import LONGEST_SPREAD, SPREAD, Line, Pending, failure
from lockfast.engines.remote.messages import Fault, Goaway, Said, Welcome
from lockfast.engines.remote.websocket import LONGEST_AFTER, WebSocket
from lockfast.errors import EngineUnavailable
from lockfast.port import Wake
from lockfast.runtime.base import Event, now
from lockfast.runtime.threads import Threads
from lockfast.service import overload
from lockfast.service.replica import Replica
from tests.servers.process import wait_until
from tests.servers.service import Service
from tests.service.peers import Held, Peer, on_a_replica


class Owner:
    """What a line needs of its transport."""

    hears = True
    on_disconnect = 0.0

    def __init__(self) -> None:
        self.identity = Identity()
        self.now = now

    def event(self) -> Event:
        return Threads().event()

    def woken(self, wakes: list[Wake]) -> None:
        pass


class Mute(Line):
    """A line without a connection."""

    def post(self, message: bytes) -> None:
        pass

    probe = shut = leave_to_parent = lambda self: None  # noqa: ARG005

    async def answered(self, pending: Pending, deadline: float) -> bool:  # noqa: ARG002
        return False


def greeted(spread: float | None) -> Mute:
    """Return a line that a replica has greeted."""
    owner = Owner()
    line = Mute(owner, WebSocket("localhost", 1, "/", None, secure=False), "a test")
    line._take(Welcome(messages.VERSION, owner.identity.client, spread=spread))
    return line


@pytest.fixture
def latest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every random moment is the latest one."""
    monkeypatch.setattr(random, "random", lambda: 1.0)


def lost(line: Line) -> float | None:
    """Cut a line, and return after how many seconds the client connects again."""
    line.drop(EngineUnavailable("cut", sent=True))
    return None if line.moving is None else round(line.moving - now(), 1)


@pytest.mark.usefixtures("latest")
@pytest.mark.parametrize(
    ("told", "waits"), [(None, None), (0.0, 0.0), (8.0, 8.0), (1e6, LONGEST_SPREAD)]
)
def test_a_client_waits_for_as_long_as_the_replica_has_said_and_never_for_longer(
    told: float | None, waits: float | None
) -> None:
    assert lost(greeted(told)) == waits
    later = greeted(0.5)
    later._take(Said(1, [], spread=told))
    assert lost(later) == (0.5 if waits is None else waits)


@pytest.mark.usefixtures("latest")
@pytest.mark.parametrize(
    ("told", "waits"), [(None, SPREAD), (0.0, SPREAD), (8.0, 8.0), (1e6, LONGEST_SPREAD)]
)
def test_a_replica_that_drains_is_left_over_the_same_time_and_over_a_second_at_least(
    told: float | None, waits: float
) -> None:
    line = greeted(told)
    line._take(Goaway())
    assert line.moving is not None
    assert round(line.moving - now(), 1) == waits
    before = line.moving
    lost(line)
    assert line.moving == before  # its moment was chosen already


def test_a_replica_cannot_have_a_request_wait_for_ever() -> None:
    error = failure("x", Fault("unavailable", "busy", sent=False, after=1e6))
    assert isinstance(error, EngineUnavailable)
    assert error.after == LONGEST_AFTER


@pytest.mark.parametrize(
    ("field", "after"),
    [("7", 7.0), ("999999999", LONGEST_AFTER), ("Fri, 20 Nov 2026 01:00:00 GMT", 0.0), ("-1", 0.0)],
)
def test_a_refused_handshake_says_when_to_come_again(field: str, after: float) -> None:
    reply = f"HTTP/1.1 503 Service Unavailable\r\nRetry-After: {field}\r\nContent-Length: 0\r\n\r\n"
    with pytest.raises(EngineUnavailable, match="HTTP 503") as error:
        WebSocket("localhost", 1, "/", None, secure=False).receive(reply.encode())
    assert error.value.after == after


def test_a_client_hears_of_the_spread_at_its_greeting_and_when_it_has_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(overload, "RATE", 10.0)

    @on_a_replica
    async def run(replica: Replica, _: Held) -> None:
        peer = Peer(replica)
        assert peer.greet().spread == pytest.approx(0.1)
        assert (await peer.claim(peer.new("a"))).spread is None
        others = [Peer(replica) for _ in range(20)]
        assert (await peer.claim(peer.new("b"))).spread == pytest.approx(2.1)
        assert (await peer.claim(peer.new("c"))).spread is None
        for each in others:
            each.connection.end()
        assert (await peer.claim(peer.new("d"))).spread == pytest.approx(0.1)

    run()


class Cut:
    """A replica whose clients wait for ten seconds when their connections are cut."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(overload, "RATE", 0.1)
        monkeypatch.setattr(random, "random", lambda: 1.0)
        self.service = Service(self._make)

    def _make(self, _: object) -> Callable[[], Held]:
        self.loop = asyncio.get_running_loop()
        return Held().made

    def accepted(self) -> int:
        """Return how many connections there have been."""
        assert self.service._server is not None
        return self.service._server._replica.figures.accepted.counts[()]

    def cut(self) -> None:
        """Cut all connections."""
        server = self.service._server
        assert server is not None
        before = len(server._replica.connections)
        for each in list(server.server_state.connections):
            self.loop.call_soon_threadsafe(each.abort)  # type: ignore[union-attr]
        wait_until(lambda: len(server._replica.connections) < before, "the connections are cut")


def test_a_client_with_a_lease_connects_when_it_has_to_renew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cut = Cut(monkeypatch)
    with cut.service as service, lockfast.connect(service.url) as client:
        lease = client.lock("x", ttl=6.0).acquire()
        cut.cut()
        began = time.monotonic()
        time.sleep(0.5)
        assert cut.accepted() == 1
        wait_until(lambda: cut.accepted() == 2, "it has connected", 5.0)
        assert time.monotonic() - began < 3.5  # it has to renew after two seconds
        time.sleep(0.2)
        lease.ensure_held()
        assert lease.state is lockfast.State.HELD


def test_a_client_that_asks_for_something_connects_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cut = Cut(monkeypatch)

    async def ask(url: str) -> None:
        async with aio.connect(url) as client:
            await client.lock("x", ttl=30.0).acquire()
            await asyncio.to_thread(cut.cut)
            await asyncio.sleep(0.3)
            assert cut.accepted() == 1
            began = time.monotonic()
            await client.lock("y").acquire(timeout=5.0)
            assert time.monotonic() - began < 2.0

    with cut.service as service:
        asyncio.run(ask(service.url))


def test_ten_clients_are_back_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    cut = Cut(monkeypatch)
    monkeypatch.undo()
    with cut.service as service:
        clients = [lockfast.connect(service.url) for _ in range(10)]
        for place, client in enumerate(clients):
            client.lock(f"x{place}", ttl=30.0).acquire()
        cut.cut()
        wait_until(lambda: cut.accepted() == 20, "they have connected", 2.0)
        for client in clients:
            client.close()
