"""Spans: an acquisition and a hold, below whatever the caller was doing."""

from __future__ import annotations

import pytest
from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode

import lockfast
from lockfast.testing import Contract, Stage, driven
from lockfast.testing.harness.verbs import acquire, release, try_acquire
from tests.telemetry.seen import Seen


class TestBothModes(Contract):
    @driven
    async def test_an_acquisition_and_a_hold_belong_to_what_the_caller_does(
        self, stage: Stage, seen: Seen
    ) -> None:
        tracer = seen.tracers.get_tracer("the caller")
        with tracer.start_as_current_span("request") as request:
            lease = await acquire(stage.client().lock("job:7"))
        await release(lease)  # after the request: it belongs to it all the same
        (acquired,), (held,) = seen.spans("lock.acquire"), seen.spans("lock.hold")
        for span in (acquired, held):
            assert span.parent is not None
            assert span.parent.span_id == request.get_span_context().span_id
            assert span.kind is SpanKind.CLIENT
            assert span.status.status_code is StatusCode.UNSET
            about = dict(span.attributes or {})
            assert about["lock.template"] == "job:{number}"
            assert about["lock.ticket"] == lease.token
            assert about["db.system.name"] == "memory"
        assert (acquired.end_time or 0) <= (held.end_time or 0)

    @driven
    async def test_a_failed_acquisition_is_an_error_that_says_which(
        self, stage: Stage, seen: Seen
    ) -> None:
        client = stage.client()
        lease = await acquire(client.lock("report"))
        assert await try_acquire(client.lock("report")) is None
        _, failed = seen.spans("lock.acquire")
        assert failed.status.status_code is StatusCode.ERROR
        assert failed.status.description == "NotAcquired"
        assert (failed.attributes or {})["error.type"] == "NotAcquired"
        await release(lease)

    @driven
    async def test_a_lost_hold_is_an_error_too(self, stage: Stage, seen: Seen) -> None:
        lease = await acquire(stage.client().lock("report"))
        lease.fenced()
        await stage.mode.until(lambda: seen.spans("lock.hold"), "the heart has told")
        (held,) = seen.spans("lock.hold")
        assert (held.status.status_code, held.status.description) == (StatusCode.ERROR, "fenced")


def test_no_span_shows_a_name(seen: Seen) -> None:
    with lockfast.connect("memory://") as client:
        client.lock("secret:7", purpose="secret").acquire().release()
    spans = seen.spans("lock.acquire") + seen.spans("lock.hold")
    assert len(spans) == 2
    assert not [span for span in spans if "secret" in span.to_json()]


def test_a_span_lasts_as_long_as_what_it_shows(seen: Seen) -> None:
    with lockfast.connect("memory://") as client:
        lease = client.lock("report").acquire()
        with pytest.raises(lockfast.NotAcquired):
            client.lock("report", timeout=0.05).acquire()
        lease.release()
    (held,) = seen.spans("lock.hold")
    assert (held.end_time or 0) - (held.start_time or 0) >= 50_000_000
    assert trace.get_current_span() is trace.INVALID_SPAN  # nothing was left behind
