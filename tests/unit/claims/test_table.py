"""The table of live claims: what beats and pushes do to a claim."""

from __future__ import annotations

import asyncio
import weakref

import lockfast
from lockfast import aio
from lockfast.claims.claim import HELD, WAITING, Live
from lockfast.claims.table import Claims
from lockfast.errors import Loss
from lockfast.port import Shape, Standing, Wake


class Lease:
    """Something to hold."""


def held(claims: Claims, lease: Lease) -> Live:
    live = Live("0" * 32, Shape("x", 30.0), True, 10.0, b"", 1, weakref.ref(lease))  # noqa: FBT003
    claims.register(live, 0.0)
    live.copies = 1
    claims.answered(live, 0.0, Standing(1, granted=True, left=30.0), 0.1)
    return live


def test_a_beat_in_the_middle_of_a_release_leaves_it_alone() -> None:
    claims, lease = Claims(), Lease()
    live = held(claims, lease)
    assert claims.releasing(live, 3.2)
    work = claims.work(3.3)  # when it would have been renewed
    assert (work.renew, work.resign) == ([], [])
    claims.missing(live, 3.4)
    assert live.loss is Loss.GONE  # nobody but the engine can have removed it


def test_a_release_during_which_the_time_ran_out_is_no_loss() -> None:
    claims, lease = Claims(), Lease()
    live = held(claims, lease)
    assert claims.releasing(live, 29.0)
    claims.missing(live, live.until)  # the engine may have dropped it by itself
    assert live.loss is Loss.RELEASED


def test_a_release_that_took_a_whole_beat_is_helped_and_then_is_no_loss() -> None:
    claims, lease = Claims(), Lease()
    live = held(claims, lease)
    assert claims.releasing(live, 3.2)
    assert claims.work(7.0).resign == [live]
    claims.missing(live, 7.1)  # the heart's resignation arrived first
    assert live.loss is Loss.RELEASED


def test_a_push_that_doubts_a_holder_has_it_renewed_at_once() -> None:
    claims, lease = Claims(), Lease()
    live = held(claims, lease)
    claims.wake([Wake(live.id, granted=False)], 0.2)
    assert claims.plan() == 0.2
    assert claims.work(0.2).renew == [[live]]


def test_a_doubled_push_of_the_grant_does_not() -> None:
    claims, lease = Claims(), Lease()
    live = held(claims, lease)
    claims.wake([Wake(live.id, granted=True)], 0.2)
    assert claims.work(0.2).renew == []


def test_a_claim_that_is_to_stay_is_not_resigned_by_an_earlier_beat() -> None:
    claims, lease = Claims(), Lease()
    live = held(claims, lease)
    live.keep = 20.0
    claims.hasten(live, 1.0)  # an appointment that was made before it was released
    assert claims.releasing(live, 1.0)
    claims.linger(live)
    for now in (1.5, 12.0, 19.9):
        work = claims.work(now)
        assert (work.renew, work.resign) == ([], [])
    assert claims.work(20.0).resign == [live]


def test_a_claim_that_is_to_stay_stays_though_its_block_died() -> None:
    claims, lease = Claims(), Lease()
    live = held(claims, lease)
    live.keep = 20.0
    del lease  # Ctrl-C before the first line of __exit__
    assert claims.work(10.1).resign == []
    assert claims.work(20.0).resign == [live]


def test_whoever_waits_for_the_end_again_and_again_leaves_nothing_behind() -> None:
    with lockfast.connect("memory://") as client, client.lock("x") as lease:
        for _ in range(100):
            assert not lease.wait_lost(0.0)
        assert lease.live.watchers == ()


def test_a_frame_that_was_left_leaves_nothing_behind() -> None:
    async def main() -> None:
        async with aio.connect("memory://") as client, client.rlock("x") as lease:
            for _ in range(100):
                async with client.rlock("x"):
                    pass
            assert len(lease.live.callbacks) == 1

    asyncio.run(main())


def test_the_claims_of_a_worker_are_forgotten_with_their_end() -> None:
    claims, lease = Claims(), Lease()
    live = held(claims, lease)
    assert claims.holding(1) == {live.id: "x"}
    claims.end(live)
    assert claims.holding(1) == {}
    assert len(claims._owners) == 0


def test_a_long_wait_has_one_appointment_to_look_again_and_not_one_for_each_beat() -> None:
    claims, lease = Claims(), Lease()
    live = Live("0" * 32, Shape("x", 30.0), True, 10.0, b"", 1, weakref.ref(lease))  # noqa: FBT003
    claims.register(live, 0.0)
    live.copies = 1
    waiting = Standing(2, granted=False, left=10.0, ahead=1, recheck=20.0)
    claims.answered(live, 0.0, waiting, 0.0)
    now, renewals = 0.0, 0
    while now < 300.0:
        now = claims.plan() or now
        for batch in claims.work(now).renew:
            renewals += len(batch)
            claims.renewed(batch, now, [waiting] * len(batch), now)
    assert renewals < 300.0 / 3.0 + 300.0 / 20.0 + 2


def test_a_release_that_begins_while_it_is_being_renewed_is_helped_all_the_same() -> None:
    claims, lease = Claims(), Lease()
    live = held(claims, lease)
    assert claims.work(4.0).renew == [[live]]  # taken out of the timetable
    assert claims.releasing(live, 4.1)
    claims.renewed([live], 4.0, [Standing(1, granted=True, left=30.0)], 4.2)
    assert claims.work(4.3).resign == []
    assert claims.work(8.0).resign == [live]


def test_a_release_is_helped_as_soon_however_long_its_lease_was() -> None:
    claims, lease = Claims(), Lease()
    live = held(claims, lease)
    claims.work(4.0)
    claims.renewed([live], 4.0, [Standing(1, granted=True, left=30.0)], 4.0)  # good until 34
    assert claims.releasing(live, 5.0)
    assert claims.work(9.0).resign == [live]


def test_a_beat_in_the_middle_of_a_release_looks_again_later() -> None:
    claims, lease = Claims(), Lease()
    live = held(claims, lease)
    assert claims.releasing(live, 3.2)
    assert claims.work(3.4).resign == []
    assert claims.work(7.0).resign == [live]


def test_a_lease_that_stays_taken_is_resigned_when_its_time_has_come_and_not_a_beat_later() -> None:
    claims, lease = Claims(), Lease()
    live = held(claims, lease)
    live.keep = 2.0
    assert claims.releasing(live, 1.5)
    claims.linger(live)
    assert claims.work(1.9).resign == []
    assert claims.work(2.1).resign == [live]


def test_a_grant_that_a_later_answer_takes_back_is_none() -> None:
    """The engine's clock went back: the waiter expired, and a late copy of it waits again."""
    claims, lease = Claims(), Lease()
    live = Live("0" * 32, Shape("x", 30.0), True, 10.0, b"", 1, weakref.ref(lease))  # noqa: FBT003
    claims.register(live, 0.0)
    live.copies = 1
    claims.answered(live, 0.0, Standing(1, granted=False, left=10.0, ahead=1), 0.1)
    claims.wake([Wake(live.id, granted=True)], 11.0)  # it came when its time was over
    assert live.phase is WAITING
    waits = Standing(2, granted=False, left=10.0, ahead=1)
    claims.renewed([live], 10.9, [waits], 11.1)  # sent before: the grant may have come since
    assert live.phase is HELD
    live.phase = WAITING
    claims.renewed([live], 11.2, [waits], 11.3)
    assert live.phase is WAITING
