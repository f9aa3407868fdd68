"""The table of live claims: what beats and pushes do to a claim."""

from __future__ import annotations

import asyncio
import weakref

import pytest

import lockfast
from lockfast import aio
from lockfast.claims.claim import Claim
from lockfast.claims.phases import HELD, WAITING
from lockfast.claims.table import Table
from lockfast.errors import Loss
from lockfast.port import EVERYONE, Ask, Shape, Standing, Wake

ASK = Ask("0" * 32, Shape("x", 30.0), queue=True, not_after=10.0, payload=b"")


class Lease:
    """Something to hold."""


def held(table: Table, lease: Lease) -> Claim:
    claim = Claim(ASK, 1, weakref.ref(lease))
    table.register(claim, 0.0)
    claim.copies = 1
    table.answered(claim, 0.0, Standing(1, granted=True, left=30.0), 0.1)
    return claim


def test_a_beat_in_the_middle_of_a_release_leaves_it_alone() -> None:
    table, lease = Table(), Lease()
    claim = held(table, lease)
    assert table.releasing(claim, 3.2)
    work = table.work(3.3)  # when it would have been renewed
    assert (work.renew, work.resign) == ([], [])
    table.missing(claim, 3.4)
    assert claim.loss is Loss.GONE  # nobody but the engine can have removed it


def test_a_release_during_which_the_time_ran_out_is_no_loss() -> None:
    table, lease = Table(), Lease()
    claim = held(table, lease)
    assert table.releasing(claim, 29.0)
    table.missing(claim, claim.until)  # the engine may have dropped it by itself
    assert claim.loss is Loss.RELEASED


def test_a_release_that_took_a_whole_beat_is_helped_and_then_is_no_loss() -> None:
    table, lease = Table(), Lease()
    claim = held(table, lease)
    assert table.releasing(claim, 3.2)
    assert table.work(7.0).resign == [claim]
    table.missing(claim, 7.1)  # the heart's resignation arrived first
    assert claim.loss is Loss.RELEASED


def test_a_push_that_doubts_a_holder_has_it_renewed_at_once() -> None:
    table, lease = Table(), Lease()
    claim = held(table, lease)
    table.wake([Wake(claim.id, granted=False)], 0.2)
    assert table.plan() == 0.2
    assert table.work(0.2).renew == [[claim]]


@pytest.mark.parametrize("wake", [EVERYONE, Wake(ASK.id, granted=False)])
def test_a_waiter_whose_reply_comes_after_a_vague_wake_is_asked_about_again(wake: Wake) -> None:
    # The grant may have been pushed before the subscription, and after the reply was made.
    table, lease = Table(), Lease()
    claim = Claim(ASK, 1, weakref.ref(lease))
    table.register(claim, 0.0)
    claim.copies = 1
    table.wake([wake], 0.2)
    table.answered(claim, 0.1, Standing(1, granted=False, left=10.0, ahead=1), 0.3)
    assert table.work(0.3).renew == [[claim]]
    table.renewed([claim], 0.3, [Standing(1, granted=False, left=10.0, ahead=1)], 0.4)
    assert table.work(0.4).renew == []  # once is enough


def test_a_doubled_push_of_the_grant_does_not() -> None:
    table, lease = Table(), Lease()
    claim = held(table, lease)
    table.wake([Wake(claim.id, granted=True)], 0.2)
    assert table.work(0.2).renew == []


def test_a_claim_that_is_to_stay_is_not_resigned_by_an_earlier_beat() -> None:
    table, lease = Table(), Lease()
    claim = held(table, lease)
    claim.keep = 20.0
    table.hasten(claim, 1.0)  # an appointment that was made before it was released
    assert table.releasing(claim, 1.0)
    table.linger(claim)
    for now in (1.5, 12.0, 19.9):
        work = table.work(now)
        assert (work.renew, work.resign) == ([], [])
    assert table.work(20.0).resign == [claim]


def test_a_claim_that_is_to_stay_stays_though_its_block_died() -> None:
    table, lease = Table(), Lease()
    claim = held(table, lease)
    claim.keep = 20.0
    del lease  # Ctrl-C before the first line of __exit__
    assert table.work(10.1).resign == []
    assert table.work(20.0).resign == [claim]


def test_whoever_waits_for_the_end_again_and_again_leaves_nothing_behind() -> None:
    with lockfast.connect("memory://") as client, client.lock("x") as lease:
        for _ in range(100):
            assert not lease.wait_lost(0.0)
        assert lease.claim.watchers == ()


def test_a_frame_that_was_left_leaves_nothing_behind() -> None:
    async def main() -> None:
        async with aio.connect("memory://") as client, client.rlock("x") as lease:
            for _ in range(100):
                async with client.rlock("x"):
                    pass
            assert len(lease.claim.callbacks) == 1

    asyncio.run(main())


def test_the_claims_of_a_worker_are_forgotten_with_their_end() -> None:
    table, lease = Table(), Lease()
    claim = held(table, lease)
    assert table.holding(1) == {claim.id: "x"}
    table.end(claim)
    assert table.holding(1) == {}
    assert len(table._owners) == 0


def test_a_long_wait_has_one_appointment_to_look_again_and_not_one_for_each_beat() -> None:
    table, lease = Table(), Lease()
    claim = Claim(ASK, 1, weakref.ref(lease))
    table.register(claim, 0.0)
    claim.copies = 1
    waiting = Standing(2, granted=False, left=10.0, ahead=1, recheck=20.0)
    table.answered(claim, 0.0, waiting, 0.0)
    now, renewals = 0.0, 0
    while now < 300.0:
        now = table.plan() or now
        for batch in table.work(now).renew:
            renewals += len(batch)
            table.renewed(batch, now, [waiting] * len(batch), now)
    assert renewals < 300.0 / 3.0 + 300.0 / 20.0 + 2


def test_a_release_that_begins_while_it_is_being_renewed_is_helped_all_the_same() -> None:
    table, lease = Table(), Lease()
    claim = held(table, lease)
    assert table.work(4.0).renew == [[claim]]  # taken out of the timetable
    assert table.releasing(claim, 4.1)
    table.renewed([claim], 4.0, [Standing(1, granted=True, left=30.0)], 4.2)
    assert table.work(4.3).resign == []
    assert table.work(8.0).resign == [claim]


def test_a_release_is_helped_as_soon_however_long_its_lease_was() -> None:
    table, lease = Table(), Lease()
    claim = held(table, lease)
    table.work(4.0)
    table.renewed([claim], 4.0, [Standing(1, granted=True, left=30.0)], 4.0)  # good until 34
    assert table.releasing(claim, 5.0)
    assert table.work(9.0).resign == [claim]


def test_a_beat_in_the_middle_of_a_release_looks_again_later() -> None:
    table, lease = Table(), Lease()
    claim = held(table, lease)
    assert table.releasing(claim, 3.2)
    assert table.work(3.4).resign == []
    assert table.work(7.0).resign == [claim]


def test_a_lease_that_stays_taken_is_resigned_when_its_time_has_come_and_not_a_beat_later() -> None:
    table, lease = Table(), Lease()
    claim = held(table, lease)
    claim.keep = 2.0
    assert table.releasing(claim, 1.5)
    table.linger(claim)
    assert table.work(1.9).resign == []
    assert table.work(2.1).resign == [claim]


def test_a_grant_that_a_later_answer_takes_back_is_none() -> None:
    """The engine's clock went back: the waiter expired, and a late copy of it waits again."""
    table, lease = Table(), Lease()
    claim = Claim(ASK, 1, weakref.ref(lease))
    table.register(claim, 0.0)
    claim.copies = 1
    table.answered(claim, 0.0, Standing(1, granted=False, left=10.0, ahead=1), 0.1)
    table.wake([Wake(claim.id, granted=True)], 11.0)  # it came when its time was over
    assert claim.phase is WAITING
    waits = Standing(2, granted=False, left=10.0, ahead=1)
    table.renewed([claim], 10.9, [waits], 11.1)  # sent before: the grant may have come since
    assert claim.phase is HELD
    claim.phase = WAITING
    table.renewed([claim], 11.2, [waits], 11.3)
    assert claim.phase is WAITING
