"""Spans and metrics of a replica of the service: the trace of a client continues there."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode

import lockfast
from lockfast import aio, telemetry
from lockfast.claims import observer
from lockfast.engines.remote import messages
from lockfast.engines.remote.messages import Asked, Claim, Malformed, Renew, Resign
from lockfast.errors import EngineUnavailable
from lockfast.service import otel
from lockfast.service.replica import Replica
from tests.servers.process import wait_until
from tests.servers.service import Service
from tests.service.peers import Held, Peer, on_a_replica, settle
from tests.telemetry.seen import Seen

PARENT = f"00-{'1' * 32}-{'2' * 16}-01"


class Hop:
    """A replica whose spans and figures are collected."""

    def __init__(self, service: Service, seen: Seen) -> None:
        assert service._server is not None
        self.url = service.url
        self.replica = service._server._replica
        self.seen = seen
        otel.instrument(self.replica.figures, seen.meters, seen.tracers)

    def spans(self, request: str, count: int) -> list[ReadableSpan]:
        """Return the spans of one kind of request. They are recorded after the reply was sent."""
        name = f"lock.service.{request}"
        wait_until(lambda: len(self.seen.spans(name)) >= count, f"{count} spans {name}")
        found = self.seen.spans(name)
        assert len(found) == count
        return found


@pytest.fixture
def hop(seen: Seen) -> Iterator[Hop]:
    with Service(lambda _: Held().made) as service:
        yield Hop(service, seen)


def check(hop: Hop, request: ReadableSpan, parent: trace.Span) -> None:
    """Check the spans of a pair, whose parent is that of the client's spans."""
    (claimed,), (resigned,) = hop.spans("claim", 1), hop.spans("resign", 1)
    (acquired,) = hop.seen.spans("lock.acquire")
    context = parent.get_span_context()
    assert acquired.parent is not None
    assert acquired.parent.span_id == context.span_id
    for span, outcome in ((claimed, "granted"), (resigned, "removed")):
        assert span.parent is not None
        assert (span.parent.trace_id, span.parent.span_id) == (context.trace_id, context.span_id)
        assert span.parent.is_remote
        assert span.kind is SpanKind.SERVER
        assert span.status.status_code is StatusCode.UNSET
        assert dict(span.attributes or {}) == {"lock.outcome": outcome}
        assert request.start_time is not None
        assert span.start_time is not None
        assert span.end_time is not None
        assert request.start_time <= span.start_time < span.end_time


def test_the_trace_of_a_thread_continues_in_the_replica(hop: Hop) -> None:
    tracer = hop.seen.tracers.get_tracer("app")
    with lockfast.connect(hop.url) as client, tracer.start_as_current_span("request") as parent:
        client.lock("job:7").acquire().release()
    (request,) = hop.seen.spans("request")
    check(hop, request, parent)


def test_the_trace_of_a_task_continues_in_the_replica(hop: Hop) -> None:
    tracer = hop.seen.tracers.get_tracer("app")

    async def main() -> trace.Span:
        async with aio.connect(hop.url) as client:
            with tracer.start_as_current_span("request") as parent:
                await (await client.lock("job:7").acquire()).release()
            return parent

    parent = asyncio.run(main())
    (request,) = hop.seen.spans("request")
    check(hop, request, parent)


def test_tasks_whose_requests_share_a_message_keep_their_own_traces(hop: Hop) -> None:
    tracer = hop.seen.tracers.get_tracer("app")
    spans: list[int] = []

    async def pair(client: aio.AsyncClient, number: int) -> None:
        with tracer.start_as_current_span("request") as parent:
            spans.append(parent.get_span_context().span_id)
            await (await client.lock(f"job:{number}").acquire()).release()

    async def main() -> None:
        async with aio.connect(hop.url) as client:
            await asyncio.gather(*(pair(client, number) for number in range(40)))

    asyncio.run(main())
    for kind in ("claim", "resign"):
        found = [span.parent.span_id for span in hop.spans(kind, 40) if span.parent is not None]
        assert sorted(found) == sorted(spans)


def test_lock_all_is_traced_too(hop: Hop) -> None:
    tracer = hop.seen.tracers.get_tracer("app")
    with lockfast.connect(hop.url) as client, tracer.start_as_current_span("request") as parent:
        client.lock_all("job:1", "job:2").acquire().release()
    for span in hop.spans("claim", 2):
        assert span.parent is not None
        assert span.parent.span_id == parent.get_span_context().span_id


def test_without_a_span_nothing_is_sent(hop: Hop, caplog: pytest.LogCaptureFixture) -> None:
    with lockfast.connect(hop.url) as client:
        client.lock("job:7").acquire().release()
        off = TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False).get_tracer("app")
        with off.start_as_current_span("not recorded"):
            assert observer.trace() == ""
            client.lock("job:7").acquire().release()
    wait_until(lambda: hop.replica.figures.requests.counts["resign", ""] == 2, "both ended")
    assert not hop.seen.spans("lock.service.claim")
    assert not caplog.messages


def test_without_telemetry_nothing_is_sent(hop: Hop) -> None:
    telemetry.uninstrument()
    tracer = hop.seen.tracers.get_tracer("app")
    with lockfast.connect(hop.url) as client, tracer.start_as_current_span("request"):
        client.lock("job:7").acquire().release()
    wait_until(lambda: hop.replica.figures.requests.counts["resign", ""] == 1, "it has ended")
    assert not hop.seen.spans("lock.service.claim")


@pytest.mark.usefixtures("seen")
def test_a_broken_span_costs_nobody_a_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(trace, "get_current_span", fail)
    assert isinstance(observer.watcher, telemetry.Otel)
    assert observer.watcher.trace() == ""


@on_a_replica
async def test_an_error_is_the_spans_too(replica: Replica, held: Held) -> None:
    seen = Seen()
    otel.instrument(replica.figures, seen.meters, seen.tracers)
    peer = Peer(replica)
    peer.greet()
    held.failures.append(EngineUnavailable("no answer", sent=True))
    await peer.claim(peer.new("a", trace=PARENT))
    (span,) = seen.spans("lock.service.claim")
    assert dict(span.attributes or {}) == {"lock.outcome": "failed", "error.type": "unavailable"}
    assert span.status.status_code is StatusCode.ERROR
    assert span.context is not None
    assert f"{span.context.trace_id:032x}" == "1" * 32
    seen.close()


@on_a_replica
async def test_a_span_lasts_as_long_as_the_request(replica: Replica, held: Held) -> None:
    seen = Seen()
    otel.instrument(replica.figures, seen.meters, seen.tracers)
    peer = Peer(replica)
    peer.greet()
    held.holding.add("claim")
    peer.send(Claim(1, 5.0, [peer.new("a", trace=PARENT)]))
    while not held.gates:
        await settle()
    during = time.time_ns()
    held.let_go()
    await peer.next()
    (span,) = seen.spans("lock.service.claim")
    assert (span.start_time or 0) <= during <= (span.end_time or 0)
    seen.close()


@on_a_replica
async def test_a_tracer_that_fails_costs_nobody_a_reply(replica: Replica, held: Held) -> None:
    def fail(*_: object, **__: object) -> None:
        held.calls.append(("traced", []))
        raise ZeroDivisionError

    replica.figures.spans = otel.OtelSpans(SimpleNamespace(start_span=fail))  # type: ignore[arg-type]  # it only fails
    peer = Peer(replica)
    peer.greet()
    said = await peer.claim(peer.new("a", trace=PARENT), peer.new("b", trace=PARENT))
    assert [found is not None and found.granted for found in said.results] == [True, True]
    assert held.of("traced") == [[], []]


@on_a_replica
async def test_what_a_client_leaves_behind_is_no_longer_wanted(
    replica: Replica, held: Held
) -> None:
    """Also while it is traced, a request whose client has left is not sent."""
    seen = Seen()
    otel.instrument(replica.figures, seen.meters, seen.tracers)
    peer = Peer(replica)
    peer.greet()
    peer.send(Claim(1, 2.0, [peer.new("a", trace=PARENT)]))
    peer.connection.end()
    await settle()
    assert not held.of("claim")
    seen.close()


def test_metrics_are_those_of_the_page(hop: Hop) -> None:
    with lockfast.connect(hop.url) as client:
        client.lock("job:7").acquire().release()
        wait_until(lambda: hop.replica.figures.requests.counts["resign", ""] == 1, "it has ended")
        with closing(HTTPConnection(hop.url.removeprefix("lockfast://"), timeout=10.0)) as line:
            line.request("GET", "/v1/guarantees")
            assert line.getresponse().status == 200
        found = hop.seen.metrics()
    figures = hop.replica.figures
    names = [each.name for each in (*figures.gauges, *figures.counters, *figures.histograms)]
    assert set(names) <= set(found)
    values = {
        tuple(dict(point.attributes).values()): point.value
        for point in found["lock.service.claims"].data.data_points
        if point.value
    }
    assert values == {("claim", "granted"): 1, ("resign", "removed"): 1}
    assert {"lock.request": "claim"} in [
        dict(point.attributes) for point in found["lock.service.requests"].data.data_points
    ]
    (open_,) = found["lock.service.connections"].data.data_points
    assert open_.value == 1
    for histogram in figures.histograms:
        points = {
            dict(point.attributes)[histogram.keys[0]]: point
            for point in found[histogram.name].data.data_points
        }
        for labels, series in histogram.series.items():
            assert points[labels[0]].explicit_bounds == tuple(histogram.bounds)
            assert list(points[labels[0]].bucket_counts) == series.counts
            assert points[labels[0]].sum == pytest.approx(series.sum)


@pytest.mark.parametrize(
    "text",
    [
        PARENT + "\n",
        PARENT[:-1],
        PARENT.replace("1", "g"),
        PARENT.replace("00-", "ff-"),
        PARENT.upper().replace("1", "A"),
        " " + PARENT,
        "x" * 10_000,
    ],
)
def test_a_trace_that_is_none_is_refused(text: str) -> None:
    encoded = messages.encode(Claim(1, 1.0, [Asked("0" * 32, "a", 1.0, trace=text)]))
    with pytest.raises(Malformed):
        messages.request(encoded)


def test_the_trace_is_a_field_that_may_be_missing() -> None:
    """Older replicas ignore it, and older clients do not send it."""
    asked = Asked("0" * 32, "a", 1.0)
    assert b"trace" not in messages.encode(asked)
    request = json.loads(messages.encode(Claim(1, 1.0, [asked])))
    request["asks"][0]["trace"] = PARENT
    request["asks"][0]["later"] = "unknown"
    claim = messages.request(json.dumps(request))
    assert isinstance(claim, Claim)
    assert claim.asks[0].trace == PARENT


def test_a_renewal_has_no_trace(hop: Hop, monkeypatch: pytest.MonkeyPatch) -> None:
    """It belongs to no request of the program, and would make the trace endless."""
    traces: dict[str, set[str]] = {"Claim": set(), "Renew": set(), "Resign": set()}
    feed = messages._request.decode

    def note(frame: bytes | str) -> Any:  # noqa: ANN401
        found = feed(frame)
        if isinstance(found, Claim | Renew | Resign):
            traces[type(found).__name__] |= {asked.trace for asked in found.asks}
        return found

    monkeypatch.setattr(messages, "_request", SimpleNamespace(decode=note))
    tracer = hop.seen.tracers.get_tracer("app")
    with (
        lockfast.connect(hop.url) as client,
        tracer.start_as_current_span("request"),
        client.lock("job:7", ttl=0.5),
    ):
        wait_until(lambda: bool(traces["Renew"]), "it was renewed")
    assert traces["Renew"] == {""}
    (claimed,), (resigned,) = traces["Claim"], traces["Resign"]
    assert claimed == resigned != ""


def test_serve_exports_if_an_sdk_is_there_and_else_imports_nothing() -> None:
    code = """
        import sys
        {first}
        from lockfast.service import server
        from lockfast.service.config import Config
        class Quiet(server.Server):
            def run(self): print(self._replica.figures.spans is not None)
        server.Server = Quiet
        server.serve(Config(url="memory://", port=0))
        print("opentelemetry" in sys.modules)
    """
    for first, told in (("", "False\nFalse\n"), ("import opentelemetry.sdk.trace", "True\nTrue\n")):
        script = textwrap.dedent(code.format(first=first))
        ran = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True
        )
        assert ran.stdout == told
