"""Batching: which requests share a call, and what each caller learns from it."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from collections.abc import Callable, Coroutine, Sequence
from itertools import count
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockfast.engines import batching as batching_module
from lockfast.engines import lane
from lockfast.engines.batching import AT_ONCE, Batching
from lockfast.engines.lane_call import Call
from lockfast.engines.lane_entry import Entry
from lockfast.engines.memory import Memory, MemoryEngine
from lockfast.errors import EngineRefused, EngineUnavailable
from lockfast.port import Ask, Shape, Standing
from lockfast.runtime.aio import Aio
from lockfast.runtime.base import now
from lockfast.runtime.drive import drive
from lockfast.runtime.threads import Threads

SIZE = 8
LONG = 5.0
numbers = count(1)


def ask(name: str = "", *, queue: bool = True) -> Ask:
    number = next(numbers)
    shape = Shape(name or f"name {number}", 30.0)
    return Ask(f"{number:032x}", shape, queue, now() + shape.wait_ttl, b"")


class Gated(MemoryEngine):
    """The memory engine, behind a gate that a test opens. It notes what each call carried."""

    def __init__(self, memory: Memory) -> None:
        super().__init__(memory, Aio().bell())
        self.gate = asyncio.Event()
        self.together = asyncio.Event()
        """A call with claims of several callers has begun."""
        self.calls: list[tuple[str, list[Ask]]] = []
        self.fails: list[BaseException | None] = []
        """What the next calls raise, after the gate."""
        self.deadlines: list[float] = []
        """Of the calls with claims of several callers."""

    async def _pass(self, kind: str, asks: Sequence[Ask]) -> None:
        self.calls.append((kind, list(asks)))
        await self.gate.wait()
        error = self.fails.pop(0) if self.fails else None
        if error is not None:
            raise error

    async def claim(self, ask: Ask, deadline: float) -> Standing | None:
        await self._pass("claim", [ask])
        return await super().claim(ask, deadline)

    async def claim_all(
        self, asks: Sequence[Ask], deadline: float
    ) -> list[Standing | Exception | None]:
        self.together.set()
        self.deadlines.append(deadline)
        await self._pass("claim_all", asks)
        return [await MemoryEngine.claim(self, each, deadline) for each in asks]

    async def resign(
        self, asks: Sequence[Ask], deadline: float, *, doubt: bool
    ) -> list[bool | Exception]:
        await self._pass(f"resign, doubt={doubt}", asks)
        return await super().resign(asks, deadline, doubt=doubt)

    def sizes(self, kind: str) -> list[int]:
        return [len(asks) for each, asks in self.calls if each == kind]


Scene = Callable[[Gated, Batching], Coroutine[Any, Any, None]]


def play(scene: Scene) -> None:
    async def main() -> None:
        runtime = Aio()
        runtime.enter()
        engine = Gated(Memory())
        await scene(engine, Batching(engine, runtime, SIZE))

    asyncio.run(asyncio.wait_for(main(), 10.0))


async def settle() -> None:
    """Let every task run until all of them wait."""
    for _ in range(20):
        await asyncio.sleep(0)


def claims(batching: Batching, asks: Sequence[Ask], wait: float = LONG) -> list[asyncio.Task[Any]]:
    return [asyncio.ensure_future(batching.claim(each, now() + wait)) for each in asks]


def test_a_request_that_comes_alone_is_sent_at_once_and_by_itself() -> None:
    async def scene(engine: Gated, batching: Batching) -> None:
        engine.gate.set()
        one = ask()
        assert await batching.claim(one, now() + LONG)
        assert await batching.resign([one], now() + LONG, doubt=False) == [True]
        assert engine.calls == [("claim", [one]), ("resign, doubt=False", [one])]

    play(scene)


def test_requests_that_come_during_calls_go_out_together() -> None:
    async def scene(engine: Gated, batching: Batching) -> None:
        asks = [ask() for _ in range(AT_ONCE + SIZE + 3)]
        tasks = claims(batching, asks)
        await settle()
        assert engine.sizes("claim") == [1] * AT_ONCE
        engine.gate.set()
        standings = await asyncio.gather(*tasks)
        assert engine.sizes("claim_all") == [SIZE, 3]
        assert [standing.granted for standing in standings] == [True] * len(asks)

    play(scene)


def test_callers_that_were_answered_together_ask_together_again() -> None:
    async def scene(engine: Gated, batching: Batching) -> None:
        async def rounds() -> None:
            for _ in range(5):
                one = ask()
                await batching.claim(one, now() + LONG)
                await batching.resign([one], now() + LONG, doubt=False)

        async def pulse() -> None:
            while True:
                await settle()
                engine.gate.set()
                await asyncio.sleep(0)
                engine.gate.clear()

        gate = asyncio.ensure_future(pulse())
        await asyncio.gather(*(rounds() for _ in range(SIZE)))
        gate.cancel()
        # Only those that came first went by themselves, also the first ones of each group.
        assert engine.sizes("claim") == [1] * AT_ONCE
        assert 1 not in engine.sizes("claim_all")
        assert 1 not in engine.sizes("resign, doubt=False")[2 * AT_ONCE :]

        engine.gate.set()
        engine.calls.clear()
        await rounds()  # after them, a request that comes alone goes by itself again
        assert engine.sizes("claim") == [1] * 4

    play(scene)


def test_replies_reach_the_callers_that_asked() -> None:
    async def scene(engine: Gated, batching: Batching) -> None:
        taken = [ask(f"lock {i}") for i in range(SIZE)]
        for each in taken[::2]:
            await MemoryEngine.claim(engine, each, now() + LONG)
        blockers = claims(batching, [ask() for _ in range(AT_ONCE)])
        tries = [ask(f"lock {i}", queue=False) for i in range(SIZE)]
        tasks = claims(batching, tries)
        await settle()
        engine.gate.set()
        await asyncio.gather(*blockers)
        granted = [standing.granted for standing in await asyncio.gather(*tasks)]
        assert granted == [False, True] * (SIZE // 2)

    play(scene)


def test_claims_on_one_name_keep_their_order_and_share_no_call() -> None:
    async def scene(engine: Gated, batching: Batching) -> None:
        others = claims(batching, [ask() for _ in range(AT_ONCE)])
        same = [ask("same") for _ in range(4)]
        mixed = [each for pair in zip(same, [ask() for _ in same], strict=True) for each in pair]
        tasks = claims(batching, mixed)
        await settle()
        engine.gate.set()
        await asyncio.gather(*others, *tasks)
        tickets = [(await task).ticket for task in tasks[::2]]
        assert tickets == sorted(tickets)
        for _, asks in engine.calls:
            assert len({each.shape.name for each in asks}) == len(asks)

    play(scene)


def test_a_crowd_on_one_name_does_not_wait_for_one_another() -> None:
    async def scene(engine: Gated, batching: Batching) -> None:
        hang = claims(batching, [ask("same") for _ in range(AT_ONCE)])
        tasks = claims(batching, [ask("same") for _ in range(20)])
        await engine.together.wait()  # it goes out beside the calls that hang
        await settle()
        assert len(engine.calls) == AT_ONCE + 20
        engine.gate.set()
        await asyncio.gather(*hang, *tasks)

    play(scene)


def test_a_refused_call_is_repeated_one_by_one_and_one_bad_claim_fails_alone() -> None:
    async def scene(engine: Gated, batching: Batching) -> None:
        before = claims(batching, [ask() for _ in range(AT_ONCE)])
        asks = [ask() for _ in range(3)]
        tasks = claims(batching, asks)
        await settle()
        refused = EngineRefused("a bad claim")
        engine.fails = [None, None, refused, None, refused, None]  # the call, then the second claim
        engine.gate.set()
        await asyncio.gather(*before)
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(found[0], Standing)
        assert found[1] is refused
        assert isinstance(found[2], Standing)

    play(scene)


@pytest.mark.parametrize("sent", [True, False])
def test_a_lost_reply_puts_each_claim_in_doubt_by_itself(*, sent: bool) -> None:
    async def scene(engine: Gated, batching: Batching) -> None:
        before = claims(batching, [ask() for _ in range(AT_ONCE)])
        asks = [ask() for _ in range(3)]
        tasks = claims(batching, asks)
        await settle()
        engine.fails = [None, None, EngineUnavailable("lost", sent=sent)]
        engine.gate.set()
        await asyncio.gather(*before)
        errors = await asyncio.gather(*tasks, return_exceptions=True)
        assert len({id(error) for error in errors}) == 3
        told = [error.sent for error in errors if isinstance(error, EngineUnavailable)]
        assert told == [sent] * 3
        # Whatever spoiled the call must not spoil a second one for the others.
        engine.gate.clear()
        again = claims(batching, asks)
        await settle()
        assert engine.sizes("claim") == [1] * (AT_ONCE + 3)
        engine.gate.set()
        assert all(isinstance(each, Standing) for each in await asyncio.gather(*again))

    play(scene)


def test_a_claim_that_is_cancelled_before_it_was_sent_is_never_sent() -> None:
    async def scene(engine: Gated, batching: Batching) -> None:
        before = claims(batching, [ask() for _ in range(AT_ONCE)])
        asks = [ask() for _ in range(3)]
        tasks = claims(batching, asks)
        await settle()
        tasks[0].cancel()
        await settle()
        assert len(batching._claims._pending) == 2
        engine.gate.set()
        await asyncio.gather(*before, *tasks[1:])
        assert asks[0] not in [each for _, some in engine.calls for each in some]

    play(scene)


@pytest.mark.parametrize("stays", range(3))  # whichever of them leads the call
def test_a_claim_that_is_cancelled_after_it_was_sent_disturbs_no_other(stays: int) -> None:
    async def scene(engine: Gated, batching: Batching) -> None:
        before = claims(batching, [ask() for _ in range(AT_ONCE)])
        tasks = claims(batching, [ask() for _ in range(3)])
        await settle()
        engine.gate.set()
        await asyncio.gather(*before)
        engine.gate.clear()
        await engine.together.wait()
        stayed = tasks.pop(stays)
        for task in tasks:
            task.cancel()
        await settle()
        assert all(task.cancelled() for task in tasks)
        engine.gate.set()
        assert (await stayed).granted
        assert engine.sizes("claim_all") == [3]

    play(scene)


def test_a_claim_that_is_cancelled_between_its_leader_and_the_call_is_never_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its leader has taken it out of the lane, and the call has not begun. The heart may resign
    the claim at once, and a copy that is sent afterwards could be granted to nobody.
    """
    monkeypatch.setattr(lane, "AGE", 60.0)  # otherwise it might lead the call itself

    class Hooked(Aio):
        async def apart(self, work: Coroutine[Any, Any, None]) -> None:
            tasks[0].cancel()
            await super().apart(work)

    tasks: list[asyncio.Task[Any]] = []

    async def main() -> None:
        runtime = Hooked()
        runtime.enter()
        engine = Gated(Memory())
        batching = Batching(engine, runtime, SIZE)
        before = claims(batching, [ask() for _ in range(AT_ONCE)])
        asks = [ask() for _ in range(3)]
        tasks.extend(claims(batching, asks))
        await settle()
        engine.gate.set()
        await asyncio.gather(*before, *tasks[1:])
        assert tasks[0].cancelled()
        assert engine.calls[AT_ONCE:] == [("claim_all", asks[1:])]

    asyncio.run(asyncio.wait_for(main(), 10.0))


def test_a_leader_that_is_cancelled_before_it_sends_hands_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lane, "AGE", 60.0)  # otherwise each would look after itself

    async def scene(engine: Gated, batching: Batching) -> None:
        before = claims(batching, [ask() for _ in range(AT_ONCE)])
        tasks = claims(batching, [ask() for _ in range(3)])
        await settle()
        engine.gate.set()
        while not all(task.done() for task in before):
            await asyncio.sleep(0)
            if any(task.done() for task in before):  # the one with the latest deadline will lead
                tasks[2].cancel()
        assert [(await task).granted for task in tasks[:2]] == [True, True]
        assert tasks[2].cancelled()

    play(scene)


def test_a_call_lasts_as_long_as_the_latest_of_its_deadlines() -> None:
    async def scene(engine: Gated, batching: Batching) -> None:
        hang = claims(batching, [ask() for _ in range(AT_ONCE)])
        await settle()
        end = now() + LONG
        deadlines = [end, end + lane.AGE / 2, end - 1.0]
        tasks = [asyncio.ensure_future(batching.claim(ask(), each)) for each in deadlines]
        await engine.together.wait()  # the first one is due first, and leads
        assert engine.deadlines == [end + lane.AGE / 2]
        engine.gate.set()
        await asyncio.gather(*hang, *tasks)

    play(scene)


def test_what_is_left_to_another_leader_is_not_overtaken_on_its_name() -> None:
    async def scene(engine: Gated, batching: Batching) -> None:
        hang = claims(batching, [ask() for _ in range(AT_ONCE)])
        await settle()
        leader, patient, hasty = ask(), ask("same"), ask("same")
        tasks = claims(batching, [leader], 2.0)
        tasks += claims(batching, [patient], LONG)
        tasks += claims(batching, [hasty], 2.0)
        await engine.together.wait()
        await settle()  # all three are sent before the first one is answered
        engine.gate.set()
        await asyncio.gather(*hang, *tasks)
        sent = [each for _, asks in engine.calls for each in asks]
        assert sent[AT_ONCE:] == [leader, patient, hasty]
        assert (await tasks[1]).granted

    play(scene)


def test_two_calls_that_hang_make_room_for_two_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane, "AGE", 0.5)

    async def scene(engine: Gated, batching: Batching) -> None:
        hang = claims(batching, [ask() for _ in range(AT_ONCE)])
        tasks = claims(batching, [ask() for _ in range(SIZE)])
        await asyncio.sleep(0.4)
        tasks += claims(batching, [ask() for _ in range(3)])
        await engine.together.wait()
        await settle()
        assert engine.sizes("claim_all") == [SIZE, 3], "the rest waits for its own time"
        engine.gate.set()
        await asyncio.gather(*hang, *tasks)

    play(scene)


def test_a_request_that_another_leader_has_taken_is_not_sent_twice() -> None:
    """The second copy would not be counted: it could arrive after the resignation."""

    class Raced(dict[Entry[Any], None]):
        def pop(self, entry: Any, default: Any = None) -> Any:  # noqa: ANN401  # as dict has it
            return default if entry is fast else super().pop(entry, default)

    runtime = Threads()
    lanes = Batching(MemoryEngine(Memory(), runtime.bell()), runtime, SIZE)
    slow, fast = (Entry[Any]((ask(),), (name,), LONG, 0.0, ()) for name in "ab")
    lanes._claims._pending = Raced({slow: None, fast: None})
    call = Call[Any](slow, LONG, SIZE)
    lanes._claims._collect(call)
    drive(lanes.close())
    assert call.entries() == [slow]


def test_each_claim_keeps_its_own_deadline() -> None:
    async def scene(engine: Gated, batching: Batching) -> None:
        before = claims(batching, [ask() for _ in range(AT_ONCE)])
        await settle()
        began = now()
        (short,) = claims(batching, [ask()], 0.03)
        (long,) = claims(batching, [ask()])
        with pytest.raises(EngineUnavailable) as unsent:
            await short
        assert now() - began < 1.0
        assert not unsent.value.sent
        engine.gate.set()
        assert (await long).granted
        await asyncio.gather(*before)
        assert engine.sizes("claim_all") == [1], "what was reported as unsent must not be sent"

    play(scene)


def test_a_claim_whose_call_is_not_answered_by_its_deadline_is_in_doubt() -> None:
    async def scene(engine: Gated, batching: Batching) -> None:
        before = claims(batching, [ask() for _ in range(AT_ONCE)])
        await settle()
        hasty, patient = ask(), ask()
        tasks = [*claims(batching, [hasty], 0.3), *claims(batching, [patient])]
        await engine.together.wait()
        with pytest.raises(EngineUnavailable) as sent:
            await tasks[0]
        assert sent.value.sent
        engine.gate.set()
        assert (await tasks[1]).granted
        await asyncio.gather(*before)

    play(scene)


def test_calls_that_hang_do_not_stop_the_lane() -> None:
    async def scene(engine: Gated, batching: Batching) -> None:
        hang = claims(batching, [ask() for _ in range(AT_ONCE)])
        await settle()
        began = now()
        (other,) = claims(batching, [ask()])
        await engine.together.wait()
        assert lane.AGE * 0.9 < now() - began < lane.AGE * 3
        engine.gate.set()
        await asyncio.gather(other, *hang)

    play(scene)


def test_when_the_first_in_the_lane_leaves_the_next_one_looks_after_calls_that_hang() -> None:
    async def scene(engine: Gated, batching: Batching) -> None:
        hang = claims(batching, [ask() for _ in range(AT_ONCE)])
        tasks = claims(batching, [ask(), ask()])
        await settle()
        tasks[0].cancel()
        began = now()
        await engine.together.wait()
        assert now() - began < lane.AGE * 3
        engine.gate.set()
        assert (await tasks[1]).granted
        await asyncio.gather(*hang)

    play(scene)


class Sluggish(MemoryEngine):
    """A call takes half a second, and fails at its deadline if that comes first."""

    async def claim_all(
        self, asks: Sequence[Ask], deadline: float
    ) -> list[Standing | Exception | None]:
        await asyncio.sleep(min(0.5, max(deadline - now(), 0.0)))
        if now() >= deadline:
            raise EngineUnavailable("no answer in time", sent=True)
        return [await MemoryEngine.claim(self, each, deadline) for each in asks]

    async def claim(self, ask: Ask, deadline: float) -> Standing | None:
        (standing,) = await self.claim_all([ask], deadline)
        assert not isinstance(standing, Exception)
        return standing


def test_requests_in_a_hurry_do_not_starve_one_that_has_time() -> None:
    async def main() -> None:
        runtime = Aio()
        runtime.enter()
        batching = Batching(Sluggish(Memory(), runtime.bell()), runtime, SIZE)
        hasty: list[asyncio.Task[Any]] = []

        async def hurry() -> None:
            while True:
                hasty.extend(claims(batching, [ask()], 0.3))
                await asyncio.sleep(0.03)

        crowd = asyncio.ensure_future(hurry())
        await asyncio.sleep(0.1)
        patient = [claims(batching, [ask()], 4.0)[0]]
        await asyncio.sleep(0.05)
        patient += claims(batching, [ask()], 2.0)
        standings = await asyncio.gather(*patient)
        crowd.cancel()
        assert [standing.granted for standing in standings] == [True, True]
        found = await asyncio.gather(*hasty, return_exceptions=True)
        assert all(isinstance(each, EngineUnavailable) for each in found)

    asyncio.run(asyncio.wait_for(main(), 10.0))


def test_a_call_takes_nobody_along_who_has_more_time() -> None:
    def entry(name: str, deadline: float) -> Entry[Any]:
        return Entry((ask(name),), (name,), deadline, 0.0, ())

    leader = entry("a", 1.0)
    call = Call(leader, 1.1, SIZE)
    assert call.place(entry("b", 1.05)) is call.batch
    assert call.place(entry("c", 1.2)) is None
    assert call.place(leader) is call.batch


def test_a_thread_that_leads_does_not_wait_for_those_that_have_more_time() -> None:
    runtime = Threads()

    class Stuck(MemoryEngine):
        async def claim_all(
            self,
            asks: Sequence[Ask],  # noqa: ARG002  # the port's
            deadline: float,
        ) -> list[Standing | Exception | None]:
            await runtime.sleep(max(deadline - now(), 0.0))
            raise EngineUnavailable("no answer in time", sent=True)

        async def claim(self, ask: Ask, deadline: float) -> Standing | None:
            await self.claim_all([ask], deadline)
            return None

    batching = Batching(Stuck(Memory(), runtime.bell()), runtime, SIZE)
    took: dict[float, float] = {}

    def work(wait: float) -> None:
        began = now()
        with pytest.raises(EngineUnavailable):
            drive(batching.claim(ask(), began + wait))
        took[wait] = now() - began

    waits = [3.0, 2.9, 0.4, 2.0, 0.45, 1.0, 0.5]
    threads = [threading.Thread(target=work, args=(wait,)) for wait in waits]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10.0)
    drive(batching.close())
    assert len(took) == len(waits)
    assert not {wait: spent for wait, spent in took.items() if spent > wait + 1.0}


def test_a_call_that_never_leaves_is_forgotten() -> None:
    """Ctrl-C can come between the beginning of a call and the block that ends it."""

    async def scene(engine: Gated, batching: Batching) -> None:
        engine.gate.set()
        for _ in range(AT_ONCE):
            assert batching._claims.enter()
        assert (await batching.claim(ask(), now() + LONG)).granted  # type: ignore[union-attr]
        began = now()
        assert (await batching.claim(ask(), now() + LONG)).granted  # type: ignore[union-attr]
        assert now() - began < lane.AGE / 2

    play(scene)


def test_a_lane_that_is_never_empty_keeps_no_request_that_has_ended() -> None:
    """A request remembers the calls before it, and a call has requests that remember others."""

    def alive() -> int:
        gc.collect()
        return sum(type(each) is Entry for each in gc.get_objects())

    async def scene(engine: Gated, batching: Batching) -> None:
        most, before = AT_ONCE * SIZE, alive()  # other tests may have left some
        tasks = claims(batching, [ask() for _ in range(AT_ONCE + most)])
        await settle()
        for _ in range(20):  # as many as are answered arrive while calls are under way
            engine.gate.set()
            await asyncio.sleep(0)
            engine.gate.clear()
            await settle()
            tasks = tasks[-most:] + claims(batching, [ask() for _ in range(most)])
            await settle()
        assert engine.sizes("claim_all") == [SIZE] * (20 * AT_ONCE)
        assert alive() - before <= 2 * most
        engine.gate.set()
        await asyncio.gather(*tasks)

    play(scene)


def test_an_interrupted_leader_loses_no_request_and_each_is_in_doubt() -> None:
    async def scene(engine: Gated, batching: Batching) -> None:
        before = claims(batching, [ask() for _ in range(AT_ONCE)])
        tasks = claims(batching, [ask() for _ in range(3)])
        await settle()
        engine.fails = [None, None, asyncio.CancelledError()]  # as at the end of asyncio.run
        engine.gate.set()
        await asyncio.gather(*before)
        async with asyncio.timeout(LONG / 2):  # and not only at their deadlines
            errors = await asyncio.gather(*tasks, return_exceptions=True)
        assert [getattr(error, "sent", None) for error in errors] == [True] * 3

    play(scene)


def test_a_request_that_finds_the_lane_free_costs_few_bytecodes() -> None:
    """A lone pair may cost 5 % more than without batching, and most of it is spent elsewhere. The
    count is the same on every machine, whatever else runs there.
    """
    runtime = Threads()
    batching = Batching(MemoryEngine(Memory(), runtime.bell()), runtime, SIZE)
    files = {batching_module.__file__, lane.__file__}
    steps = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:  # noqa: ANN401  # as settrace wants
        nonlocal steps
        if frame.f_code.co_filename not in files:
            return None
        frame.f_trace_opcodes = True
        steps += event == "opcode"
        return trace

    one = ask()
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        drive(batching.claim(one, now() + LONG))
        drive(batching.resign((one,), now() + LONG, doubt=False))
    finally:
        sys.settrace(before)
    drive(batching.close())
    assert 50 < steps < 170


def test_resignations_in_doubt_share_no_call_with_others() -> None:
    async def scene(engine: Gated, batching: Batching) -> None:
        asks = [ask() for _ in range(12)]
        for each in asks:
            await MemoryEngine.claim(engine, each, now() + LONG)
        tasks = [
            asyncio.ensure_future(batching.resign([each], now() + LONG, doubt=i % 2 == 0))
            for i, each in enumerate(asks)
        ]
        await settle()
        engine.gate.set()
        assert await asyncio.gather(*tasks) == [[True]] * 12
        for kind, some in engine.calls:
            assert {asks.index(each) % 2 == 0 for each in some} == {kind.endswith("True")}

    play(scene)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=30), st.integers(1, 5))
def test_what_callers_learn_is_what_the_engine_would_have_told_them_one_by_one(
    wanted: list[tuple[int, bool]], size: int
) -> None:
    """Claims on a name are made in the order of arrival. So each has the standing that the
    reference model gives it, one after the other.
    """

    async def main() -> None:
        runtime = Aio()
        runtime.enter()
        engine, plain = Gated(Memory()), MemoryEngine(Memory(), runtime.bell())
        engine.gate.set()
        batching = Batching(engine, runtime, size)
        asks = [ask(f"name {number}", queue=queue) for number, queue in wanted]
        found = await asyncio.gather(*claims(batching, asks))
        for each, standing in zip(asks, found, strict=True):
            expected = await plain.claim(each, now() + LONG)
            assert expected is not None
            assert (standing.granted, standing.ahead) == (expected.granted, expected.ahead)
        assert all(len(some) <= size for _, some in engine.calls)

    asyncio.run(main())


def test_threads_share_calls_and_every_one_gets_its_own_reply() -> None:
    runtime = Threads()
    memory = Memory()

    class Slow(MemoryEngine):
        calls = 0

        async def claim_all(
            self, asks: Sequence[Ask], deadline: float
        ) -> list[Standing | Exception | None]:
            Slow.calls += 1
            await runtime.sleep(0.002)
            return [await MemoryEngine.claim(self, each, deadline) for each in asks]

        async def claim(self, ask: Ask, deadline: float) -> Standing | None:
            Slow.calls += 1
            await runtime.sleep(0.002)
            return await MemoryEngine.claim(self, ask, deadline)

    batching = Batching(Slow(memory, runtime.bell()), runtime, 64)
    rounds, errors = 20, []

    def work(mine: int) -> None:
        try:
            for _ in range(rounds):
                one = ask(f"thread {mine}")
                standing = drive(batching.claim(one, now() + LONG))
                assert standing is not None
                assert standing.granted
                assert drive(batching.resign([one], now() + LONG, doubt=False)) == [True]
        except BaseException as error:
            errors.append(error)
            raise

    threads = [threading.Thread(target=work, args=(mine,)) for mine in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20.0)
    drive(batching.close())
    assert not errors
    assert not any(thread.is_alive() for thread in threads)
    assert Slow.calls < 16 * rounds * 0.6
