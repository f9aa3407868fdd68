"""A replica that is overloaded: what it refuses, what it never refuses, and what its clients do."""

from __future__ import annotations

import asyncio
import http.client
import json
import logging
import threading
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

import lockfast
from lockfast import aio
from lockfast.engines.remote.messages import Claim, Gone, Renew, Resign, Said
from lockfast.errors import EngineUnavailable
from lockfast.runtime.base import now
from lockfast.runtime.drive import drive
from lockfast.service import overload
from lockfast.service.figures import CLAIMS, CONNECTIONS, Figures
from lockfast.service.overload import Load
from lockfast.service.replica import Replica
from tests.servers.service import Service
from tests.service.peers import Held, Peer, in_loop, on_a_replica
from tests.service.test_silent_hosts import ask, transport_to


@pytest.fixture
def lasting(monkeypatch: pytest.MonkeyPatch) -> None:
    """An overload does not end by itself."""
    monkeypatch.setattr(overload, "CALM", 10**9)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The event loop is looked at often."""
    for name, value in {"PERIOD": 0.01, "LATE": 0.1, "EARLY": 0.09}.items():
        monkeypatch.setattr(overload, name, value)


@pytest.fixture
def served() -> Iterator[tuple[Service, Load]]:
    """A replica, and its load."""
    with Service(lambda _: Held().made) as service:
        assert service._server is not None
        yield service, service._server._replica.load


def load_of(connections: int = 0) -> Load:
    return Load(Figures(lambda: connections), lambda: connections)


async def be_late(times: int) -> None:
    """Block the event loop again and again."""
    for _ in range(times):
        time.sleep(0.15)  # noqa: ASYNC251  # that is it
        await asyncio.sleep(0.0)


@pytest.mark.usefixtures("quick")
def test_an_overload_begins_when_the_loop_is_late_for_long_and_ends_when_it_is_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @in_loop
    async def run() -> None:
        judge = load_of()
        judge.start()
        await be_late(3 * overload.TIMES)
        assert judge.overloaded
        judge.refuse(CLAIMS)
        while judge.overloaded:  # noqa: ASYNC110  # it has no event
            await asyncio.sleep(0.01)
        judge.close()

    with caplog.at_level(logging.WARNING, "lockfast"):
        run()
    begun, ended = caplog.messages
    assert begun.startswith("this replica is overloaded: its event loop is 0.")
    assert ended == "this replica has recovered: 1 connections and claims were refused"


@pytest.mark.usefixtures("quick")
def test_one_pause_of_the_process_is_no_overload() -> None:
    @in_loop
    async def run() -> None:
        judge = load_of()
        judge.start()
        time.sleep(0.5)  # noqa: ASYNC251
        await asyncio.sleep(0.05)
        assert not judge.overloaded
        judge.close()

    run()


def test_those_that_are_refused_come_again_one_after_the_other_and_soon() -> None:
    @in_loop
    async def run() -> None:
        judge = load_of()
        waits = [judge.refuse(CONNECTIONS).after for _ in range(20_000)]
        assert waits[0] == pytest.approx(overload.SOONEST, abs=0.1)
        assert waits[3_000] == pytest.approx(overload.SOONEST + 3.0, abs=0.5)
        assert max(waits) == overload.LATEST

    run()


def test_clients_are_spread_over_a_time_that_grows_with_them_and_is_bounded() -> None:
    assert load_of(10).spread() == pytest.approx(0.01)
    assert load_of(5_000).spread() == pytest.approx(5.0)
    assert load_of(10**6).spread() == overload.LONGEST_SPREAD


@pytest.mark.usefixtures("lasting")
@on_a_replica
async def test_claims_are_refused_unsent_while_leases_are_renewed_and_released(
    replica: Replica, held: Held
) -> None:
    peer = Peer(replica)
    peer.greet()
    lease = peer.new("lease")
    assert not (await peer.claim(lease)).busy
    replica.load.overloaded = True
    said = await peer.claim(peer.new("a"), peer.new("b"))
    assert said.results == [None, None]
    assert [(each.kind, each.sent) for each in said.faults] == [("unavailable", False)] * 2
    assert all(each.after >= overload.SOONEST for each in said.faults)
    assert held.of("claim") == [["lease"]]
    peer.send(Renew(7, 2.0, [lease]))
    renewed = await peer.next()
    assert isinstance(renewed, Said)
    assert renewed.busy
    assert renewed.results[0] is not None
    peer.send(Resign(8, 2.0, [lease]))
    assert await peer.next() == Gone(8, [True])
    replica.load.overloaded = False
    assert not (await peer.claim(peer.new("c"))).busy
    assert dict(replica.figures.shed.counts) == {(CONNECTIONS,): 0, (CLAIMS,): 1}


def test_claims_that_wait_for_an_engine_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overload, "WAITING", 3)

    @on_a_replica
    async def run(replica: Replica, held: Held) -> None:
        peer = Peer(replica)
        peer.greet()
        await peer.claim(peer.new("first"))  # the engine's time is known from now on
        held.holding.add("claim")
        for name in "abc":
            peer.send(Claim(0, 5.0, [peer.new(name)]))
        refused = await peer.claim(peer.new("d"))
        assert [each.sent for each in refused.faults] == [False]
        while not held.gates:  # noqa: ASYNC110  # it has no event
            await asyncio.sleep(0.01)
        held.let_go()
        for _ in "abc":
            reply = await peer.next()
            assert isinstance(reply, Said)
            assert not reply.faults
        assert not replica.claims.waiting()
        assert not (await peer.claim(peer.new("e"))).faults

    run()


@pytest.mark.usefixtures("lasting")
def test_a_new_client_is_refused_and_one_that_was_connected_before_is_not(
    served: tuple[Service, Load],
) -> None:
    service, judge = served
    host = service.url.removeprefix("lockfast://")
    before, new = transport_to(host), transport_to(host)
    ask(before, 5.0)
    assert before.line is not None
    before.line.drop(EngineUnavailable("a test has cut it", sent=True))
    judge.overloaded = True
    ask(before, 5.0)
    with pytest.raises(EngineUnavailable, match="it answered HTTP 503") as error:
        ask(new, 5.0)
    assert error.value.after >= overload.SOONEST
    assert not error.value.sent
    with Service(lambda _: Held().made) as other:
        third = transport_to(host, other.url.removeprefix("lockfast://"))
        ask(third, 5.0)
        assert third.line is not None
        assert third.line.where.endswith(other.url.removeprefix("lockfast://"))
        drive(third.close())
    for each in (before, new):
        drive(each.close())


@pytest.mark.usefixtures("lasting")
def test_an_acquisition_over_http_gets_429(served: tuple[Service, Load]) -> None:
    service, judge = served
    body = json.dumps({"name": "a", "ttl": 30})

    def acquired() -> tuple[int, str | None]:
        line = http.client.HTTPConnection(service.url.removeprefix("lockfast://"), timeout=5.0)
        with closing(line):
            line.request("POST", "/v1/acquire", body, {"Content-Type": "application/json"})
            response = line.getresponse()
            return response.status, response.headers["Retry-After"]

    judge.overloaded = True
    status, after = acquired()
    assert status == http.HTTPStatus.TOO_MANY_REQUESTS
    assert 1 <= int(after or 0) <= overload.LATEST
    judge.overloaded = False
    assert acquired() == (http.HTTPStatus.OK, None)


@pytest.mark.usefixtures("lasting")
@pytest.mark.parametrize("form", ["threads", "asyncio"])
def test_an_acquisition_asks_again_when_it_was_told_to_and_ends_within_its_timeout(
    served: tuple[Service, Load], form: str
) -> None:
    service, judge = served

    def recover() -> None:
        time.sleep(1.5)
        judge.overloaded = False

    def in_a_thread() -> None:
        with lockfast.connect(service.url) as client:
            client.lock("before").acquire(timeout=5.0)
            judge.overloaded = True
            with pytest.raises(EngineUnavailable, match="this replica is overloaded"):
                client.lock("in vain").acquire(timeout=0.7)
            threading.Thread(target=recover, daemon=True).start()
            client.lock("x", ttl=1.0).acquire(timeout=20.0).ensure_held()

    async def in_a_task() -> None:
        async with aio.connect(service.url) as client:
            await client.lock("before").acquire(timeout=5.0)
            judge.overloaded = True
            with pytest.raises(EngineUnavailable, match="this replica is overloaded"):
                await client.lock("in vain").acquire(timeout=0.7)
            threading.Thread(target=recover, daemon=True).start()
            (await client.lock("x", ttl=1.0).acquire(timeout=20.0)).ensure_held()

    began = now()
    if form == "threads":
        in_a_thread()
    else:
        asyncio.run(in_a_task())
    assert 1.5 < now() - began < 10.0
    assert service._server is not None
    assert service._server._replica.figures.shed.counts[CLAIMS,] <= 5


@pytest.mark.usefixtures("lasting")
@in_loop
async def _renewed_less_often(url: str, judge: Load) -> None:
    async with aio.connect(url) as client:
        lease = await client.lock("x", ttl=1.5).acquire()
        claim = client._session.table.all()[0]

        async def interval(wanted: float) -> None:
            until = now() + 5.0
            while claim.lane is None or claim.lane.interval != pytest.approx(wanted, rel=1 / 8):
                assert now() < until
                await asyncio.sleep(0.05)

        await interval(0.5)
        judge.overloaded = True
        await interval(1.5 * 4 / 9)
        judge.overloaded = False
        await interval(0.5)
        lease.ensure_held()


@pytest.mark.usefixtures("lasting")
def test_clients_renew_less_often_until_it_is_over(served: tuple[Service, Load]) -> None:
    service, judge = served
    _renewed_less_often(service.url, judge)
