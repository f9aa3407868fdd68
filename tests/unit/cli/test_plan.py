"""The plan: TERM, grace, KILL, and then the end of the lease, whatever the ttl."""

import pytest

from lockfast.cli.supervise.plan import Plan


@pytest.mark.parametrize("ttl", [0.5, 3.0, 30.0, 3600.0])
def test_term_and_kill_come_before_the_end_and_after_jeopardy_has_begun(ttl: float) -> None:
    plan, until = Plan.of(ttl), 1000.0
    times = [
        plan.freeze_at(until),
        plan.term_at(until),
        plan.kill_at(until),
        plan.overdue_at(until),
        until,
    ]
    assert times == sorted(set(times))


def test_the_usual_lease_of_thirty_seconds_gives_five_of_grace() -> None:
    plan = Plan.of(30.0)
    assert (plan.term_at(30.0), plan.kill_at(30.0)) == (23.0, 28.0)


def test_a_grace_that_does_not_fit_is_refused() -> None:
    assert Plan.of(30.0, 13.0).term_at(30.0) == 15.0
    for grace in (13.1, -1.0, float("nan")):
        with pytest.raises(ValueError, match="longer --ttl"):
            Plan.of(30.0, grace)


@pytest.mark.parametrize("ttl", [-1.0, 0.0, 1e9, float("nan")])
def test_a_wrong_ttl_is_not_blamed_on_the_grace(ttl: float) -> None:
    with pytest.raises(ValueError, match=r"^--ttl must be 0\.05 to 86400 seconds, not"):
        Plan.of(ttl)
