"""What a replica counts, and the page for Prometheus."""

from __future__ import annotations

import http.client
import time
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families as parsed
from websockets.exceptions import InvalidStatus

from lockfast import telemetry
from lockfast.engines.remote import messages
from lockfast.engines.remote.messages import (
    Break,
    Claim,
    Inspect,
    Promise,
    Record,
    Records,
    Renew,
    Resign,
)
from lockfast.errors import EngineRefused, EngineUnavailable, KindMismatch
from lockfast.port import EVERYONE, Wake, everyone_of
from lockfast.service.config import Config
from lockfast.service.figures import SECONDS, SIZES, Figures
from lockfast.service.metrics_page import page
from lockfast.service.outbox import WAKES
from lockfast.service.replica import Replica
from tests.service.peers import Held, Peer, in_front_of_memory, on_a_replica, settle
from tests.service.test_access import KEY, OTHER, Guarded, keys
from tests.service.test_server import SOON, Running, read, running, say
from tests.service.test_server import Peer as ServerPeer

__all__ = ["running"]  # the fixture


def of(figures: Figures, sample: str) -> dict[tuple[str, ...], float]:
    """Return what the page says under a name: the numbers that are not 0, by their attributes."""
    found = {}
    for family in parsed(page(figures)):
        for each in family.samples:
            if each.name == sample and each.value:
                found[tuple(each.labels.values())] = each.value
    return found


@in_front_of_memory
async def test_each_request_is_counted_by_its_kind(replica: Replica) -> None:
    peer = Peer(replica)
    peer.greet()
    ask = peer.new("a")
    stranger = Peer(replica, epoch=2)
    stranger.greet()
    await stranger.claim(stranger.new("b"))
    await peer.claim(ask, peer.new("b"))
    for request in (
        Renew(2, 2.0, [ask], urgent=True),
        Resign(3, 2.0, [ask, peer.new("never")]),
        Break(4, 2.0, [peer.new("b")]),
        Inspect(5, "a"),
        Record(6, 2.0, "a", ask.id, b"record"),
        Records(7, 2.0, "a"),
        Promise(8, 2.0),
    ):
        peer.send(request)
        await peer.next()
    figures = replica.figures
    assert of(figures, "lock_service_requests_total") == {
        ("claim", ""): 2,
        **{
            (kind, ""): 1
            for kind in ("renew", "resign", "break", "inspect", "record", "records", "guarantees")
        },
    }
    assert of(figures, "lock_service_claims_total") == {
        ("claim", "granted"): 2,
        ("claim", "waiting"): 1,
        ("renew", "granted"): 1,
        ("resign", "removed"): 1,
        ("resign", "absent"): 1,
        ("break", "absent"): 1,
    }
    calls = of(figures, "lock_service_engine_duration_seconds_count")
    assert calls == {
        ("claim", ""): 2,
        ("renew", ""): 1,
        ("resign", ""): 2,
        **{(kind, ""): 1 for kind in ("inspect", "record", "records", "guarantees")},
    }
    assert of(figures, "lock_service_engine_claims_sum") == {
        ("claim",): 3,
        ("renew",): 1,
        ("resign",): 3,
    }
    assert of(figures, "lock_service_engine_claims_count") == {
        ("claim",): 2,
        ("renew",): 1,
        ("resign",): 2,
    }


@on_a_replica
async def test_each_error_is_counted_by_its_kind(replica: Replica, held: Held) -> None:
    peer = Peer(replica)
    peer.greet()
    await peer.claim(peer.new("a"))
    held.failures.append(EngineUnavailable("no answer", sent=True))
    await peer.claim(peer.new("b"))
    held.failures.append(EngineRefused("no"))
    await peer.claim(peer.new("b"))
    held.failures.append(KindMismatch("b", "a semaphore", "a mutex"))
    await peer.claim(peer.new("b"))
    held.failures.append(ZeroDivisionError("a bug"))
    await peer.claim(peer.new("b"))
    held.failures.append(EngineUnavailable("no answer", sent=True))
    peer.send(Resign(9, 2.0, [peer.new("b")]))
    await peer.next()
    held.cut = True
    peer.send(Records(10, 2.0, "a"))
    await peer.next()
    foreign = messages.Asked("f" * 32, "b", 30.0)
    peer.send(Claim(11, 2.0, [foreign]))
    await peer.next()
    peer.send(Renew(12, 2.0, [foreign]))
    await peer.next()
    figures = replica.figures
    assert of(figures, "lock_service_requests_total") == {
        ("claim", ""): 1,
        ("claim", "unavailable"): 2,  # an internal error is one for the client
        ("claim", "refused"): 2,
        ("claim", "kind-mismatch"): 1,
        ("resign", "unavailable"): 1,
        ("renew", "refused"): 1,
        ("records", "unavailable"): 1,
    }
    assert of(figures, "lock_service_claims_total") == {
        ("claim", "granted"): 1,
        ("claim", "failed"): 4,
        ("resign", "failed"): 1,
    }
    assert of(figures, "lock_service_engine_duration_seconds_count") == {
        ("claim", ""): 1,
        **{("claim", each): 1 for each in ("unavailable", "refused", "kind-mismatch", "internal")},
        ("resign", "unavailable"): 1,
        ("records", "unavailable"): 1,
    }


@in_front_of_memory
async def test_wakes_are_counted_and_who_does_not_read_them(replica: Replica) -> None:
    one, two = Peer(replica), Peer(replica)
    one.greet(hear=True)
    two.greet(hear=True)
    before = replica.figures.wakes.counts[()]
    wake = Wake(one.client + "0" * 10, granted=True)
    replica.hearing.route([wake, Wake("f" * 32, granted=True), everyone_of(two.client)])
    assert replica.figures.wakes.counts[()] == before + 2
    replica.hearing.route([EVERYONE])
    assert replica.figures.wakes.counts[()] == before + 4
    one.all()
    replica.hearing.route([wake] * WAKES)
    assert of(replica.figures, "lock_service_refused_total") == {}
    replica.hearing.route([wake])
    assert of(replica.figures, "lock_service_refused_total") == {("slow",): 1}
    assert of(replica.figures, "lock_service_connections") == {(): 1}
    assert of(replica.figures, "lock_service_accepted_total") == {(): 2}


@in_front_of_memory
async def test_a_client_that_breaks_the_protocol_is_counted(replica: Replica) -> None:
    Peer(replica).connection.feed(b"nonsense")
    assert of(replica.figures, "lock_service_refused_total") == {("protocol",): 1}


@in_front_of_memory
async def test_clients_that_are_sent_away_are_counted(replica: Replica) -> None:
    peers = [Peer(replica) for _ in range(3)]
    loop_turns = iter(peers[:2])

    def hurry() -> bool:
        peer = next(loop_turns, None)
        if peer is None:
            return True
        peer.connection.end()
        return False

    await replica.drain(20.0, hurry)
    assert of(replica.figures, "lock_service_drained_total") == {("left",): 2, ("cut",): 1}


def test_a_value_is_counted_up_to_each_bound() -> None:
    figures = Figures(lambda: 0)
    for value in (0.0, SIZES[0], 1.5, SIZES[-1], SIZES[-1] + 1):
        figures.sizes.put(value, ("claim",))
    buckets = of(figures, "lock_service_engine_claims_bucket")
    assert buckets["claim", "1.0"] == 2  # the bound belongs to it
    assert buckets["claim", "2.0"] == 3
    assert buckets["claim", "256.0"] == 4
    assert buckets["claim", "+Inf"] == 5
    assert of(figures, "lock_service_engine_claims_sum") == {("claim",): 515.5}


@on_a_replica
async def test_the_time_of_a_call_is_the_engines(replica: Replica, held: Held) -> None:
    peer = Peer(replica)
    peer.greet()
    held.holding.add("claim")
    peer.send(Claim(1, 5.0, [peer.new("a")]))
    began = time.perf_counter()
    while not held.gates:
        await settle()
    while time.perf_counter() < began + 0.05:
        await settle()
    held.let_go()
    await peer.next()
    took = of(replica.figures, "lock_service_engine_duration_seconds_sum")["claim", ""]
    assert 0.05 <= took <= time.perf_counter() - began


def test_bounds_are_those_of_the_locks() -> None:
    assert telemetry.WAITS == SECONDS


def test_the_page_is_what_prometheus_reads(running: Running) -> None:
    with running.client() as socket:
        peer = ServerPeer(socket)
        say(socket, Claim(1, 1.0, [peer.ask("a-secret-name")]))
        read(socket)
        for path, headers in (("/", {}), ("/v1/connect", {"Origin": "null"})):
            with (
                pytest.raises(InvalidStatus),
                running.client(path, additional_headers=headers),
            ):
                pass
        url = f"http://127.0.0.1:{running.port}/metrics"
        with urlopen(url, timeout=SOON) as reply:  # it is ours
            assert reply.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
            text = reply.read().decode()
    assert "secret" not in text
    families = {family.name: family for family in parsed(text)}
    assert {name: family.type for name, family in families.items()} == {
        "lock_service_connections": "gauge",
        "lock_service_overloaded": "gauge",
        "lock_service_shed": "counter",
        "lock_service_accepted": "counter",
        "lock_service_refused": "counter",
        "lock_service_requests": "counter",
        "lock_service_claims": "counter",
        "lock_service_wakes": "counter",
        "lock_service_drained": "counter",
        "lock_service_denied": "counter",
        "lock_service_audit_lost": "counter",
        "lock_service_engine_duration_seconds": "histogram",
        "lock_service_engine_claims": "histogram",
        "lock_service_http_requests": "counter",
        "lock_service_http_duration_seconds": "histogram",
    }
    assert all(family.documentation for family in families.values())
    figures = running.replica.figures
    assert of(figures, "lock_service_refused_total") == {("404",): 1, ("403",): 1}
    assert running.get("/metrics", Host="evil.example") == 403
    assert running.get("/metrics", "POST") == 405


def test_a_draining_replica_still_shows_its_figures(running: Running) -> None:
    with running.client() as socket:
        ServerPeer(socket)
        running.server.should_exit = True
        assert read(socket) == messages.Goaway()
        assert running.get("/metrics") == 200
        with pytest.raises(InvalidStatus), running.client():
            pass
        assert running.replica.figures.refused.counts["503",] == 1


def test_with_keys_the_page_needs_one() -> None:
    with Guarded(Config(port=0, keys=keys(one=KEY))) as guarded:

        def status(**headers: str) -> int:
            connection = http.client.HTTPConnection(guarded.host, guarded.port, timeout=SOON)
            connection.request("GET", "/metrics", headers=headers)
            found = connection.getresponse().status
            connection.close()
            return found

        assert status() == 401
        assert status(Authorization=f"Bearer {OTHER}") == 401
        assert status(Authorization=f"Bearer {KEY}") == 200
        assert status(Authorization=f"Bearer {KEY}", Origin="null") == 403
        assert guarded.status() == 401
        assert guarded.server._replica.figures.refused.counts["401",] == 1
