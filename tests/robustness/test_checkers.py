"""The checkers themselves: each finds what it is for, and is silent on what is right."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.robustness import checkers
from tests.robustness.checkers import Promises, Violation, check
from tests.robustness.history import Kind, Outcome, Record, dumped, read


def grant(client: str, token: int, began: float, ended: float, **more: object) -> Record:
    said = {"name": "x", "until": ended + 10.0, "id": f"{client}{token}", **more}
    return Record(
        client=client,
        kind=Kind.ACQUIRE,
        began=began,
        ended=ended,
        outcome=Outcome.OK,
        token=token,
        **said,  # type: ignore[arg-type]  # by name
    )


def after(kind: Kind, held: Record, began: float, outcome: Outcome = Outcome.OK) -> Record:
    return replace(held, kind=kind, began=began, ended=began + 0.1, outcome=outcome)


def release(held: Record, began: float, outcome: Outcome = Outcome.OK) -> Record:
    return after(Kind.RELEASE, held, began, outcome)


def lost(held: Record, began: float) -> Record:
    return after(Kind.LOST, held, began)


def write(
    client: str, token: int, began: float, ended: float, outcome: Outcome = Outcome.OK
) -> Record:
    value = f"{client}{token}@{began}"
    return Record(client, Kind.WRITE, "x", began, ended, outcome, token, f"{client}{token}", value)


def fault(kind: str, began: float, ended: float, **extra: str) -> Record:
    return Record("fate", Kind.FAULT, kind, began, ended, Outcome.OK, extra=extra)


def held(client: str, token: int, began: float, until: float, **more: object) -> list[Record]:
    """A grant that is asked for and told at once, and its release."""
    taken = grant(client, token, began, began, **more)
    return [taken, release(taken, until)]


def said(found: list[Violation]) -> str:
    (only,) = found
    return only.said


FINE = [*held("a", 1, 1, 2), grant("b", 2, 0, 3), release(grant("b", 2, 0, 3), 4)]


def test_a_history_survives_its_file_but_for_a_torn_line() -> None:
    lines = [dumped(record) + "\n" for record in FINE]
    assert list(read([*lines, lines[0][:20]])) == FINE


def test_what_is_right_is_passed_by_all() -> None:
    assert check(FINE, {}, Promises(bound=2.0)) == []
    assert checkers.overlaps(FINE) == []


# --- tokens, and the terms of an election -------------------------------------------------------


def test_one_token_for_two_claims_is_found() -> None:
    assert "token 7" in said(checkers.tokens_unique([grant("a", 7, 0, 1), grant("b", 7, 2, 3)]))


def test_one_term_with_two_leaders_is_found() -> None:
    leaders = [grant(client, 5, 0, 1, name="election:0") for client in "ab"]
    assert "token 5 was given to a and b" in said(checkers.tokens_unique(leaders))


def test_a_token_that_goes_back_is_found_and_overlapping_asks_are_not() -> None:
    assert checkers.tokens_increase([grant("a", 7, 0, 1), grant("b", 6, 2, 3)])
    assert not checkers.tokens_increase([grant("a", 7, 0, 3), grant("b", 6, 2, 4)])


# --- belief -------------------------------------------------------------------------------------


def test_two_who_are_at_work_at_once_are_counted_with_their_time() -> None:
    (overlap,) = checkers.overlaps([*held("a", 1, 0, 5), *held("b", 2, 3, 9)])
    assert (overlap.first.client, overlap.second.client, overlap.seconds) == ("a", "b", 2)
    assert overlap.allowed == []


def test_an_overlap_names_the_faults_that_allow_it() -> None:
    history = [*held("a", 1, 0, 5), *held("b", 2, 3, 9), fault("pause-client", 1, 4)]
    assert checkers.overlaps(history)[0].allowed == ["pause-client"]
    early = [*held("a", 1, 0, 5), *held("b", 2, 3, 9), fault("pause-client", -2, -1)]
    assert checkers.overlaps(early)[0].allowed == []


def test_who_was_paused_works_on_beyond_its_right_to() -> None:
    paused = grant("a", 1, 0, 0, until=2.0)
    history = [paused, lost(paused, 6), *held("b", 2, 3, 9)]
    (overlap,) = checkers.overlaps(history)
    assert overlap.seconds == pytest.approx(3.1)
    assert (overlap.rightful, overlap.allowed) == (False, ["late"])
    assert checkers.within_lease(history) == []


def test_a_right_to_believe_that_outlasts_the_lease_is_found() -> None:
    history = [*held("a", 1, 0, 5), *held("b", 2, 3, 9)]
    assert "a (token 1) had a right to believe for 2.000 s more" in said(
        checkers.within_lease(history)
    )


def test_who_is_told_too_late_has_no_right_to_believe() -> None:
    history = [*held("b", 2, 3, 9), grant("a", 1, 0, 5, until=2.0)]
    assert checkers.within_lease(history) == checkers.capacity(history) == []


def test_a_belief_ends_with_its_validity() -> None:
    assert not checkers.within_lease([grant("a", 1, 0, 1, until=2.0), grant("b", 2, 0, 3)])


@pytest.mark.parametrize(
    ("kind", "excused"),
    [("clock-server", True), ("restart-empty", True), ("pause-client", False), ("loss", False)],
)
def test_a_moved_clock_excuses_what_lived_through_it_and_a_pause_does_not(
    kind: str, *, excused: bool
) -> None:
    history = [*held("a", 1, 0, 5), *held("b", 2, 3, 9), fault(kind, 1, 4)]
    only = Promises(frozenset({"within_lease"}))
    assert (check(history, {}, only) == []) is excused
    before = [*held("a", 1, 0, 5), *held("b", 2, 3, 9), fault(kind, -2, -1)]
    assert check(before, {}, only) != []


@pytest.mark.parametrize(("token", "excused"), [(1, True), (3, False)])
def test_who_was_numbered_first_and_told_last_is_excused_by_a_clock_that_moved_in_between(
    token: int, *, excused: bool
) -> None:
    late = grant("late", token, 0, 3, until=4.0)  # its answers were under way for three seconds
    history = [late, grant("b", 2, 2, 2.5, until=5.0)]
    assert checkers.within_lease(history) != []
    moved = [*history, fault("clock-server", 0.5, 1)]
    assert (check(moved, {}, Promises(frozenset({"within_lease"}))) == []) is excused
    assert (checkers.overlaps(moved)[0].allowed == ["clock-server"]) is excused


def test_a_fault_says_itself_what_it_breaks() -> None:
    history = [*held("a", 1, 0, 5), *held("b", 2, 3, 9), fault("new", 1, 4, breaks="clock pause")]
    assert check(history, {}, Promises(frozenset({"within_lease"}))) == []


def test_what_an_engine_breaks_after_a_fault_is_excused_for_as_long_as_the_fault_says() -> None:
    taken = grant("a", 1, 3, 4, until=9.0)
    only = Promises(frozenset({"kept"}))
    for seconds, excused in (("0", False), ("0.5", False), ("1.5", True)):
        history = [taken, lost(taken, 5), fault("pause-server", 1, 2, breaks="", aftermath=seconds)]
        assert (check(history, {}, only) == []) is excused


def test_a_lease_that_is_taken_away_before_its_time_is_found() -> None:
    taken = grant("a", 1, 0, 1, until=5.0)
    assert "before its time was over" in said(checkers.kept([taken, lost(taken, 3)]))
    assert checkers.kept([taken, lost(taken, 5)]) == []


# --- the queue ----------------------------------------------------------------------------------


def test_too_many_permits_are_found() -> None:
    three = [grant(client, i, 0, i, capacity=2) for i, client in enumerate("abc", 1)]
    assert not checkers.capacity(three[:2])
    assert "a, b, c held 3 of 2" in said(checkers.capacity(three))


def test_permits_of_mixed_weights_are_added_up() -> None:
    two = held("a", 1, 0, 5, capacity=3, weight=2)
    assert not checkers.capacity([*two, *held("b", 2, 1, 6, capacity=3, weight=1)])
    assert checkers.capacity([*two, *held("b", 2, 1, 6, capacity=3, weight=2)])


def test_a_writer_beside_a_reader_is_found() -> None:
    readers = [*held("a", 1, 0, 5, capacity=9), *held("b", 2, 1, 6, capacity=9)]
    assert not checkers.capacity(readers)
    writer = held("w", 3, 4, 7, capacity=9, weight=9)
    assert "a, b, w held 11 of 9" in said(checkers.capacity([*readers, *writer]))
    assert not checkers.capacity([*readers, *held("w", 3, 6, 7, capacity=9, weight=9)])


def test_a_semaphore_that_grew_holds_no_more_than_its_new_size() -> None:
    five = held("a", 1, 0, 5, capacity=5, weight=5)
    assert not checkers.capacity([*five, *held("b", 2, 1, 6, capacity=8, weight=3)])
    assert not checkers.capacity([*held("b", 2, 0, 6, capacity=8, weight=3), *five])
    assert checkers.capacity([*five, *held("b", 2, 1, 6, capacity=8, weight=4)])
    assert checkers.capacity([*five, *held("b", 2, 1, 6, capacity=3, weight=1)])


def test_a_claim_of_a_larger_capacity_that_overtakes_a_smaller_one_is_found() -> None:
    holder = held("a", 1, 0, 20, capacity=8, weight=4)
    small = held("b", 2, 20.1, 25, capacity=3)
    large = held("c", 3, 2, 22, capacity=8)
    assert "c (ticket 3) overtook b (ticket 2)" in said(
        checkers.ticket_order([*holder, *small, *large])
    )
    assert not checkers.ticket_order([*holder, *small, *held("c", 3, 20.2, 22, capacity=8)])


def test_a_later_ticket_that_goes_first_is_found() -> None:
    second = held("b", 2, 1, 2)
    first = grant("a", 1, 0, 3)
    assert "b (ticket 2) overtook a (ticket 1)" in said(checkers.ticket_order([*second, first]))


def test_a_reader_that_overtakes_a_waiting_writer_is_found() -> None:
    reader = held("a", 1, 0, 5, capacity=9)
    writer = grant("w", 2, 1, 6, capacity=9, weight=9)
    assert not checkers.ticket_order([*reader, writer])
    overtaking = held("b", 3, 2, 3, capacity=9)
    assert "b (ticket 3) overtook w (ticket 2)" in said(
        checkers.ticket_order([*reader, writer, *overtaking])
    )


def test_a_permit_that_fits_beside_an_earlier_one_may_be_told_first() -> None:
    slow = grant("a", 1, 0, 9, capacity=2)
    assert not checkers.ticket_order([slow, *held("b", 2, 1, 2, capacity=2)])
    assert checkers.ticket_order(
        [*held("o", 0, 0, 5, capacity=2), slow, *held("b", 2, 1, 2, capacity=2)]
    )


def test_who_is_told_too_late_to_believe_was_not_overtaken() -> None:
    late = grant("a", 1, 0, 9, until=3.0)
    assert not checkers.ticket_order([late, *held("b", 2, 4, 5)])


# --- many as one --------------------------------------------------------------------------------


def test_all_or_nothing() -> None:
    both = [grant("a", i, 0, 1, name=name) for i, name in enumerate("xy", 1)]
    assert not checkers.all_or_nothing([*both, *(release(each, 2) for each in both)])
    half = [both[0], replace(both[1], outcome=Outcome.NO)]
    assert "acquire of x, y was half done" in said(checkers.all_or_nothing(half))


def test_giving_back_a_part_is_found() -> None:
    both = [grant("a", i, 0, 1, name=name) for i, name in enumerate("xy", 1)]
    found = checkers.all_or_nothing([*both, release(both[0], 2)])
    assert "gave back x of x, y" in said(found)
    killed = [*both, release(both[0], 2, Outcome.UNKNOWN)]
    assert checkers.all_or_nothing(killed) == []


def test_a_name_that_was_given_twice_in_one_is_found() -> None:
    assert "has a name twice" in said(
        checkers.all_or_nothing([grant("a", 1, 0, 1), grant("a", 2, 0, 1)])
    )


# --- recovery -----------------------------------------------------------------------------------


def waiting(began: float, ended: float) -> Record:
    return replace(grant("w", 0, began, ended), outcome=Outcome.NO)


def test_a_waiter_that_is_not_granted_after_the_faults_is_found() -> None:
    history = [fault("kill-server", 0, 10), waiting(5, 15)]
    assert "nobody held it for 5.200 s" in said(checkers.recovers(history, 4.0))
    assert not checkers.recovers(history, 6.0)


def test_time_in_which_the_engine_cannot_be_reached_is_not_waited() -> None:
    away = replace(waiting(2, 9), client="v", value="no connection to Redis")
    (longest,) = checkers.waits([waiting(0, 10), away])
    assert (longest.began, longest.ended) == (0, 2)
    busy = replace(waiting(2, 9), client="v", value="busy")
    (longest,) = checkers.waits([waiting(0, 10), busy])
    assert longest.seconds == pytest.approx(10.2)


def test_many_who_wait_for_a_moment_each_wait_together() -> None:
    history = [waiting(at, at + 0.9) for at in range(8)]
    assert "nobody held it for 8.1" in said(checkers.recovers(history, 6.0))
    assert not checkers.recovers([waiting(at, at + 0.7) for at in range(8)], 6.0)


def test_time_that_somebody_held_is_not_waited() -> None:
    history = [*held("a", 1, 0, 9), grant("w", 2, 1, 10), release(grant("w", 2, 1, 10), 11)]
    (longest,) = checkers.waits(history)
    assert longest.seconds == 1.0


def test_time_under_a_fault_is_not_waited_and_every_calm_is_looked_at() -> None:
    history = [fault("loss", 2, 4), fault("loss", 3, 6), fault("loss", 13, 20), waiting(1, 21)]
    (longest,) = checkers.waits(history)
    assert (longest.began, longest.ended) == (6, 13)


def test_who_waits_for_several_at_once_may_wait_for_another_than_is_free() -> None:
    both = [waiting(1, 9), replace(waiting(1, 9), name="y")]
    assert checkers.waits(both) == []
    (longest,) = checkers.waits([*both, replace(waiting(2, 5), name="z")])
    assert longest.name == "z"


# --- leases that were lost ----------------------------------------------------------------------


def test_a_lease_that_the_death_of_a_replica_has_cost_is_found() -> None:
    gone = [grant("a", 1, 0, 1, until=9.0), lost(grant("a", 1, 0, 1, until=9.0), 9.0)]
    death = fault("kill-replica", 7, 8)
    assert "than kill-replica" in said(checkers.carried([*gone, death], 2.0, 6.0))
    assert checkers.lost_by([*gone, death], 2.0, 1.0) == {"a replica died": 1}


@pytest.mark.parametrize(
    ("kind", "ended", "cause"),
    [
        ("pause-replica", 8.0, "a replica was paused or cut off"),
        ("kill-server", 5.5, "other faults, or several"),  # it has effects when it is over
        ("kill-client", 3.0, "a replica died"),
    ],
)
def test_a_lease_that_something_else_may_have_cost_is_only_counted(
    kind: str, ended: float, cause: str
) -> None:
    gone = [grant("a", 1, 0, 1, until=9.0), lost(grant("a", 1, 0, 1, until=9.0), 9.0)]
    history = [*gone, fault("drain-replica", 7, 8), fault(kind, ended - 1, ended)]
    assert checkers.lost_by(history, 2.0, 1.0) == {cause: 1}
    assert bool(checkers.carried(history, 2.0, 1.0)) == (cause == "a replica died")


def test_a_busy_machine_excuses_a_lost_lease() -> None:
    gone = [grant("a", 1, 0, 1, until=9.0), lost(grant("a", 1, 0, 1, until=9.0), 9.0)]
    history = [*gone, fault("kill-replica", 7, 8)]
    for busy, cause in (((8.0, 8.5), "the machine was too busy"), ((2.0, 3.0), "a replica died")):
        assert checkers.lost_by(history, 2.0, 1.0, [busy]) == {cause: 1}
        assert bool(checkers.carried(history, 2.0, 1.0, [busy])) == (cause == "a replica died")


def test_a_lease_that_nothing_explains_is_counted_as_such() -> None:
    gone = [grant("a", 1, 0, 1, until=9.0), lost(grant("a", 1, 0, 1, until=9.0), 9.0)]
    assert checkers.lost_by([*gone, fault("kill-replica", 2, 3)], 2.0, 1.0) == {"no fault": 1}
    assert checkers.carried(gone, 2.0, 6.0) == []


# --- what must hold -----------------------------------------------------------------------------


def test_only_what_is_promised_is_a_violation() -> None:
    history = [grant("a", 7, 0, 1, until=1.5), grant("b", 7, 2, 3)]
    assert {each.checker for each in check(history, {}, Promises())} == {
        "tokens_unique",
        "tokens_increase",
        "lock_object",
    }
    assert check(history, {}, Promises(frozenset({"capacity"}))) == []


def test_recovery_is_promised_with_its_bound() -> None:
    assert check([waiting(0, 9)], {}, Promises(bound=5.0))
    assert not check([waiting(0, 9)], {}, Promises())
