"""The client's contract on elections: one leader, its term, and how it learns of its end."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from lockfast.aio import AsyncClient
from lockfast.blocking.client import Candidacy, Client
from lockfast.core.validity import State
from lockfast.errors import LeaseLost, NotAcquired
from lockfast.primitives.election import Leader
from lockfast.testing.contract.client.lock_all import free
from lockfast.testing.contract.client.loss import broken
from lockfast.testing.contract.client.shared_locks import until_queued
from lockfast.testing.contract.client.times import LONG
from lockfast.testing.harness.mode import Threaded
from lockfast.testing.harness.stage import Contract, Stage, driven
from lockfast.testing.harness.verbs import (
    AnyCandidacy,
    AnyClient,
    AnyLease,
    campaign,
    close,
    leader,
    observed,
    queue,
    release,
    stand,
    withdraw,
)


class Diary:
    """Records which callbacks of candidates ran, in order."""

    def __init__(self) -> None:
        """Start empty."""
        self.lines: list[str] = []
        self.terms: list[int] = []

    def candidate(
        self,
        client: AnyClient,
        name: str,
        ttl: float,
        on_gain: Callable[[], object] = bool,
    ) -> AnyCandidacy:
        """Return a candidacy whose callbacks write into this diary."""

        def gained(lease: AnyLease) -> None:
            self.lines.append(f"{name} leads")
            self.terms.append(lease.token)
            on_gain()

        def lost() -> None:
            self.lines.append(f"{name} ends")

        return client.election("x", ttl=ttl).run(gained, lost, value=name)


class ElectionContract(Contract):
    """An election: a lock whose holder publishes a value. The engine needs no queue."""

    @driven
    async def test_the_leader_its_value_and_its_term_are_seen_by_all(self, stage: Stage) -> None:
        ours, theirs = (stage.client().election("x", ttl=LONG) for _ in range(2))
        assert await leader(theirs) is None
        lease = await campaign(ours, "10.0.0.1:80")
        seen = await leader(theirs)
        assert seen is not None
        assert (seen.value, seen.term, seen.id) == ("10.0.0.1:80", lease.token, lease.id)
        with pytest.raises(NotAcquired):
            await campaign(theirs, "10.0.0.2:80", 0.2)
        await free(stage, "x", but=lease.id)
        await release(lease)
        assert await leader(theirs) is None
        following = await campaign(theirs, timeout=5)
        assert following.token > lease.token
        again = await leader(ours)
        assert again is not None
        assert (again.value, again.term) == ("", following.token)
        await release(following)

    @driven
    async def test_an_observer_sees_each_leader_once_in_the_order_of_terms(
        self, stage: Stage
    ) -> None:
        clients = [stage.client() for _ in range(3)]
        seen: list[Leader] = []
        job = stage.mode.start(observed(clients[0].election("x", ttl=LONG), 3, seen))
        terms = []
        for number in range(3):
            election = clients[1 + number % 2].election("x", ttl=LONG)
            lease = await campaign(election, f"no {number}", 5)
            terms.append(lease.token)
            await stage.mode.until(lambda: len(seen) == len(terms), "the observer has seen it")
            await release(lease)
        await job.result()
        assert [each.term for each in seen] == terms
        assert [each.value for each in seen] == ["no 0", "no 1", "no 2"]

    @driven
    async def test_an_observer_goes_on_when_the_engine_is_back(self, stage: Stage) -> None:
        client, way = stage.shaky_client()
        lease = await campaign(stage.client().election("x", ttl=LONG), "there")
        way.cut = True
        seen: list[Leader] = []
        job = stage.mode.start(observed(client.election("x", ttl=LONG), 1, seen))
        await stage.mode.sleep(0.1)
        assert not job.done()
        way.cut = False
        await job.result()
        assert [each.value for each in seen] == ["there"]
        await release(lease)

    @driven
    async def test_too_long_a_value_is_refused(self, stage: Stage) -> None:
        with pytest.raises(ValueError, match="bytes"):
            await campaign(stage.client().election("x", ttl=LONG), "ä" * 600)


class CandidacyContract(Contract):
    """A candidacy: it campaigns in the background, and calls back when it leads and ends."""

    @driven
    async def test_a_candidate_leads_and_the_next_one_follows_when_it_withdraws(
        self, stage: Stage
    ) -> None:
        diary = Diary()
        one, two = stage.client(), stage.client()
        first, second = diary.candidate(one, "one", LONG), diary.candidate(two, "two", LONG)

        async def both() -> None:
            await stage.mode.until(lambda: diary.lines == ["one leads"], "the first leads")
            assert first.lease is not None

            async def inner() -> None:
                await stage.mode.sleep(0.05)
                assert diary.lines == ["one leads"]
                await withdraw(first)
                await stage.mode.until(lambda: len(diary.lines) == 3, "the second leads")
                assert first.lease is None

            await stand(second, inner)

        await stand(first, both)
        assert diary.lines == ["one leads", "one ends", "two leads", "two ends"]
        assert diary.terms == sorted(set(diary.terms))
        assert await queue(one.lock("x")) == []

    @driven
    async def test_a_candidate_in_line_withdraws_at_once_and_leaves_no_trace(
        self, stage: Stage
    ) -> None:
        client, diary = stage.client(), Diary()
        lease = await campaign(client.election("x", ttl=LONG))

        async def body() -> float:
            await until_queued(stage, client.lock("x"), 2)
            return time.monotonic()

        asked = await stand(diary.candidate(stage.client(), "two", LONG), body)
        assert time.monotonic() - asked < 2
        await free(stage, "x", but=lease.id)
        assert diary.lines == []
        await release(lease)

    @driven
    async def test_a_leader_that_is_deposed_is_told_and_campaigns_again(self, stage: Stage) -> None:
        diary = Diary()
        candidacy = diary.candidate(stage.client(), "one", stage.brief)

        async def body() -> None:
            await stage.mode.until(lambda: candidacy.lease, "it leads")
            lease = candidacy.lease
            assert lease is not None
            await broken(stage, lease)
            await stage.mode.until(lambda: len(diary.lines) == 3, "it leads again")

        await stand(candidacy, body)
        assert diary.lines == ["one leads", "one ends", "one leads", "one ends"]
        assert diary.terms[1] > diary.terms[0]

    @driven
    async def test_a_leader_that_is_cut_off_learns_it_before_another_can_lead(
        self, stage: Stage
    ) -> None:
        diary = Diary()
        client, way = stage.shaky_client()
        states: list[State] = []
        first = diary.candidate(client, "one", stage.brief)

        async def both() -> None:
            await stage.mode.until(lambda: first.lease, "the first leads")
            old = first.lease
            assert old is not None
            second = diary.candidate(
                stage.client(), "two", stage.brief, lambda: states.append(old.state)
            )

            async def inner() -> None:
                way.cut = True
                await stage.mode.until(lambda: "two leads" in diary.lines, "the second leads")
                way.cut = False
                await stage.mode.until(lambda: "one ends" in diary.lines, "the first knows")
                with pytest.raises(LeaseLost):
                    old.ensure_held()

            await stand(second, inner)

        await stand(first, both)
        assert states == [State.LOST]  # the old leader's state when the new one began to lead
        assert diary.terms[0] < diary.terms[1]

    @driven
    async def test_a_candidate_whose_work_cannot_begin_gives_way_to_another(
        self, stage: Stage
    ) -> None:
        diary = Diary()
        started: list[str] = []

        def fail() -> None:
            started.append("in vain")
            raise RuntimeError("the scheduler does not start here")

        first = diary.candidate(stage.client(), "one", LONG, fail)
        second = diary.candidate(stage.client(), "two", LONG)

        async def both() -> None:
            await stage.mode.until(lambda: started, "the first tried")
            await stand(second, inner)

        async def inner() -> None:
            await stage.mode.until(lambda: "two leads" in diary.lines, "the second leads")

        await stand(first, both)
        assert diary.lines[:3] == ["one leads", "one ends", "two leads"]

    @driven
    async def test_closing_the_client_ends_a_candidacy(self, stage: Stage) -> None:
        client, diary = stage.client(), Diary()
        candidacy = diary.candidate(client, "one", LONG)

        async def body() -> None:
            await stage.mode.until(lambda: candidacy.lease, "it leads")
            await close(client)
            await stage.mode.until(lambda: len(diary.lines) == 2, "it is told")

        await stand(candidacy, body)
        assert diary.lines == ["one leads", "one ends"]

    @driven
    async def test_a_callback_may_withdraw_its_own_candidacy(self, stage: Stage) -> None:
        client, lines = stage.client(), list[str]()

        if isinstance(stage.mode, Threaded):
            assert isinstance(client, Client)

            def leave_now(_lease: AnyLease) -> None:
                lines.append("leads")
                assert isinstance(candidacy, Candidacy)
                candidacy.withdraw()

            candidacy: AnyCandidacy = client.election("x", ttl=LONG).run(
                leave_now, lambda: lines.append("ends")
            )
        else:
            assert isinstance(client, AsyncClient)

            async def leave(_lease: AnyLease) -> None:
                lines.append("leads")
                await withdraw(candidacy)

            candidacy = client.election("x", ttl=LONG).run(leave, lambda: lines.append("ends"))

        async def body() -> None:
            await stage.mode.until(lambda: len(lines) == 2, "it has ended")

        await stand(candidacy, body)
        assert lines == ["leads", "ends"]
        assert await queue(client.lock("x")) == []
