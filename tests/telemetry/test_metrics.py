"""Metrics: each acquisition, hold, loss and refusal is counted once, in both modes."""

from __future__ import annotations

import pytest

import lockfast
from lockfast import telemetry
from lockfast.claims import observer
from lockfast.core.name_templates import Templates
from lockfast.guards.http import Door
from lockfast.guards.mark import Shown, refused
from lockfast.runtime.drive import drive
from lockfast.runtime.threads import Threads
from lockfast.testing import Contract, Stage, driven
from lockfast.testing.harness.verbs import acquire, release, try_acquire, within
from lockfast.testing.lab import Lab
from tests.telemetry.seen import Seen, instrumented


class TestBothModes(Contract):
    @driven
    async def test_a_pair_is_one_acquisition_and_one_hold(self, stage: Stage, seen: Seen) -> None:
        await release(await acquire(stage.client().lock("job:7")))
        assert seen.counts("lock.acquire.duration") == {"job:{number}": 1}
        assert seen.counts("lock.hold.duration") == {"job:{number}": 1}
        assert seen.counts("lock.lost") == {}

    @driven
    async def test_what_is_held_and_what_waits_is_counted_when_asked(
        self, stage: Stage, seen: Seen
    ) -> None:
        client = stage.client()
        lease = await acquire(client.lock("report"))
        other = stage.mode.start(acquire(stage.client().lock("report")))
        await stage.mode.until(lambda: seen.counts("lock.waiters").get("report"), "it waits")
        assert seen.counts("lock.held")["report"] == 1
        await release(lease)
        await release(await other.result())
        assert seen.counts("lock.held")["report"] == 0
        assert seen.counts("lock.waiters")["report"] == 0

    @driven
    async def test_an_acquisition_that_fails_says_why(self, stage: Stage, seen: Seen) -> None:
        client = stage.client()
        lease = await acquire(client.lock("job:1"))
        assert await try_acquire(stage.client().lock("job:1")) is None
        assert await try_acquire(stage.client().lock_all("job:1", "job:2")) is None
        counts = seen.counts("lock.acquire.duration")
        assert counts == {"job:{number}": 1, "job:{number} NotAcquired": 2}
        await release(lease)

    @driven
    async def test_many_at_once_are_counted_one_by_one(self, stage: Stage, seen: Seen) -> None:
        await release(await acquire(stage.client().lock_all("job:1", "job:2", "report")))
        counts = {"job:{number}": 2, "report": 1}
        assert seen.counts("lock.acquire.duration") == counts
        assert seen.counts("lock.hold.duration") == counts

    @driven
    async def test_a_refused_token_is_a_rejection_and_a_loss(
        self, stage: Stage, seen: Seen
    ) -> None:
        lease = await acquire(stage.client().lock("job:3"))
        assert isinstance(refused(lease, lease.token + 1), lockfast.StaleToken)
        await stage.mode.until(lambda: seen.counts("lock.lost"), "the heart has told")
        assert seen.counts("lock.fence.rejected") == {"job:{number}": 1}
        assert seen.counts("lock.lost") == {"job:{number} fenced": 1}
        assert seen.counts("lock.hold.duration") == {"job:{number} fenced": 1}
        with pytest.raises(lockfast.LeaseLost):
            await release(lease)
        assert seen.counts("lock.lost") == {"job:{number} fenced": 1}

    @driven
    async def test_a_body_that_fails_has_held_all_the_same(self, stage: Stage, seen: Seen) -> None:
        async def body(_: object) -> None:
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await within(stage.client().lock("job:4"), body)
        assert seen.counts("lock.hold.duration") == {"job:{number}": 1}

    @driven
    async def test_a_broken_exporter_costs_nobody_a_lock(
        self, stage: Stage, seen: Seen, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*_: object, **__: object) -> None:
            raise ZeroDivisionError

        assert isinstance(observer.watcher, telemetry.Otel)
        monkeypatch.setattr(observer.watcher, "_span", fail)
        await release(await acquire(stage.client().lock("report")))
        assert seen.counts("lock.hold.duration") == {"report": 1}


def test_a_lease_that_is_lost_while_nobody_looks_is_counted_once(seen: Seen) -> None:
    with Lab() as lab:
        lease = lab.client.lock("job:9", ttl=30).acquire()
        with lab.pause(lab.client):
            lab.clock.advance(31)
        lab.clock.advance(1)
        assert lease.state is lockfast.State.LOST
        lab.clock.advance(100)
        assert seen.counts("lock.lost") == {"job:{number} expired": 1}


def test_a_loss_that_only_the_release_finds_is_counted(seen: Seen) -> None:
    with Lab() as lab:
        lease = lab.client.lock("job:9", ttl=30).acquire()
        lab._memory.queues.resign(lease.claim.ask, lab.clock.now(), doubt=True)
        with pytest.raises(lockfast.LeaseLost):
            lease.release()
        assert seen.counts("lock.lost") == {"job:{number} gone": 1}


def test_what_a_closed_client_held_has_ended(seen: Seen) -> None:
    with lockfast.connect("memory://") as client:
        lease = client.lock("report").acquire()
    assert lease.state is lockfast.State.RELEASED
    assert seen.counts("lock.hold.duration") == {"report": 1}


def test_a_dropped_lease_is_counted_as_such(seen: Seen) -> None:
    with Lab() as lab:
        with pytest.warns(RuntimeWarning, match="dropped"):
            lab.client.lock("report", ttl=3).acquire()
        lab.clock.advance(4)
        assert seen.counts("lock.hold.duration") == {"report dropped": 1}
        assert seen.counts("lock.lost") == {}


def test_what_a_request_showed_from_afar_is_counted_without_an_engine(seen: Seen) -> None:
    refused(Shown("report", 7, "0" * 32, 7, shared=False), 8)
    (point,) = seen.points("lock.fence.rejected").values()
    assert dict(point.attributes) == {"lock.template": "report"}


def test_a_token_that_a_door_refuses_is_a_rejection(seen: Seen) -> None:
    door = Door(lambda _method, _path: "report", marks={})
    drive(door.enter(Shown("report", 7, "0" * 32, 7, shared=False), Threads()))
    with pytest.raises(lockfast.StaleToken):
        drive(door.enter(Shown("report", 6, "0" * 32, 6, shared=False), Threads()))
    assert seen.counts("lock.fence.rejected") == {"report": 1}


def test_a_decorated_function_shows_its_own_template_and_an_unknown_name_is_other(
    seen: Seen,
) -> None:
    with lockfast.connect("memory://") as client:

        @client.lock("pay:{order}")
        def pay(order: int) -> None: ...

        pay(1)
        pay(2)
        client.lock("secret:7").acquire().release()
        client.lock("job:").acquire().release()
        client.lock("secret:8")(lambda: None)()  # not a template: its name must not be shown
    assert seen.counts("lock.acquire.duration") == {"pay:{order}": 2, "other": 3}


def test_units_and_attributes_are_those_of_the_conventions(seen: Seen) -> None:
    with lockfast.connect("memory://") as client:
        client.lock("report").acquire().release()
        metrics = seen.metrics()
    units = {name: metric.unit for name, metric in metrics.items()}
    # The last two are there if a client of another test still is.
    others = {"lock.held": "{lock}", "lock.waiters": "{waiter}"}
    assert others | units == {"lock.acquire.duration": "s", "lock.hold.duration": "s"} | others
    (point,) = seen.points("lock.acquire.duration").values()
    assert dict(point.attributes) == {"db.system.name": "memory", "lock.template": "report"}
    assert 0.0 < point.sum < 60.0


def test_the_last_call_of_instrument_counts() -> None:
    with lockfast.connect("memory://") as client, instrumented() as first:
        client.lock("report").acquire().release()
        with instrumented() as second:
            client.lock("report").acquire().release()
            assert second.counts("lock.acquire.duration") == {"report": 1}
            assert first.counts("lock.held") == {}
        assert first.counts("lock.acquire.duration") == {"report": 1}
        client.lock("report").acquire().release()  # nobody watches any more


def test_a_lease_of_before_is_released_without_a_word(seen: Seen) -> None:
    telemetry.uninstrument()
    with lockfast.connect("memory://") as client:
        lease = client.lock("report").acquire()
        with instrumented() as later:
            lease.release()
            assert later.counts("lock.hold.duration") == {}
    assert seen.counts("lock.hold.duration") == {}


@pytest.mark.parametrize(
    ("name", "template"),
    [
        ("invoice:42", "invoice:{number}"),
        ("invoice:4:2\n", "invoice:{number}"),
        ("invoice:", "other"),
        ("an invoice:42", "other"),
        ("{x}", "{{{braces}}}"),
        ("a.b", "a.b"),
        ("axb", "other"),
    ],
)
def test_a_name_shows_as_the_template_that_it_was_made_from(name: str, template: str) -> None:
    templates = Templates(["invoice:{number}", "{{{braces}}}", "a.b"])
    assert templates.of(name) == template


def test_templates_are_a_list() -> None:
    with pytest.raises(TypeError, match="a list"):
        telemetry.instrument(templates="invoice:{number}")
