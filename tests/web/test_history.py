"""The history: what differences between looks say, and what they do not."""

from __future__ import annotations

import asyncio
import json

import pytest

from lockfast import LeaseLost
from lockfast.aio import connect
from lockfast.breaks import Break
from lockfast.claims import observer
from lockfast.port import Entry, Kind
from lockfast.web.claim import Claim, key_of, mark_of
from lockfast.web.drawing.timeline import timeline
from lockfast.web.history import EACH, MOST, Event, History, gone_since
from lockfast.web.look import Look
from tests.web.engines import dashboard, in_loop, until

NOW = 1_800_000_000.0


class Engine:
    """Looks at an engine that shows what a test says."""

    def __init__(self) -> None:
        self.history = History()
        self.last = Look()
        self.now = NOW

    def look(self, *claims: tuple[str, int, bool], after: float = 1.0, cut: bool = False) -> None:
        self.now += after
        look = Look(self.last.number + 1)
        look.at, look.cut = self.now, cut
        for name, number, granted in claims:
            raw = json.dumps({"host": "h", "pid": 7, "service": "s"}).encode()
            entry = Entry(name, f"{number:032x}", number, granted, Kind.LOCK, 1, 1, 5.0, raw)
            old = self.last.claims.get(key := key_of(name, entry.id))
            if old is not None and old.mark == mark_of(entry):
                look.claims[key] = old
            else:
                look.claims[key] = new = Claim(entry, mark_of(entry))
                look.fresh.append(new)
        for event in self.history.compare(self.last, look, gone_since(self.last, look)):
            self.history.add(event)
        self.last = look

    def kinds(self, name: str) -> list[str]:
        return [event.kind for event in self.history.of(name)]


def test_what_was_there_before_is_no_event() -> None:
    engine = Engine()
    engine.look(("a", 1, True), ("a", 2, False))
    assert engine.history.of("a") == []
    assert engine.history.since == NOW + 1


def test_differences_say_what_they_know_and_no_more() -> None:
    engine = Engine()
    engine.look()
    engine.look(("a", 1, True), ("a", 2, False))
    engine.look(("a", 2, True), ("a", 3, False))
    engine.look(("a", 2, True))
    engine.look()
    told = [(event.kind, event.ticket, event.after, event.at) for event in engine.history.of("a")]
    assert told == [
        ("granted", 1, NOW + 1, NOW + 2),
        ("waits", 2, NOW + 1, NOW + 2),
        ("gone", 1, NOW + 2, NOW + 3),
        ("granted", 2, NOW + 2, NOW + 3),
        ("waits", 3, NOW + 2, NOW + 3),
        ("left", 3, NOW + 3, NOW + 4),
        ("gone", 2, NOW + 4, NOW + 5),
    ]
    assert engine.history.count("lost", engine.now) == 0
    assert "s pid 7 on h" in engine.history.of("a")[0].who


def test_what_a_look_has_left_out_is_neither_gone_nor_new() -> None:
    engine = Engine()
    engine.look(("a", 1, True), ("b", 2, False), ("c", 3, False))
    engine.look(("c", 3, True), cut=True)
    engine.look(("a", 1, True), ("b", 2, False), ("c", 3, True), ("d", 4, True))
    assert [engine.kinds(name) for name in "abcd"] == [[], [], ["granted"], []]
    engine.look(("b", 2, False), ("d", 4, True))
    assert [engine.kinds(name) for name in "abcd"] == [["gone"], [], ["granted", "gone"], []]


def test_what_was_lost_and_turns_out_to_be_broken_counts_once() -> None:
    engine = Engine()
    engine.look(("a", 1, True))
    engine.history.add(Event("lost", engine.now, "a", f"{1:032x}", 1))
    engine.history.add(Event("refused", engine.now + 120, "b"))
    engine.history.broke("a", [Break(f"{1:032x}", 1, "ada", "it hangs", NOW)])
    assert engine.history.count("broken", engine.now + 120) == 1
    for later in (120, 3_660):  # the minute in which it counted is in the hour, and is not
        assert engine.history.count("lost", engine.now + later) == 0


def test_the_record_of_a_break_says_why_a_holder_is_gone() -> None:
    engine = Engine()
    engine.look(("a", 1, True), ("b", 2, True))
    engine.look()
    record = Break(f"{1:032x}", 1, "ada", "it hangs", NOW + 2)
    engine.history.broke("a", [record, Break("f" * 32, 9, "eve", "another", NOW)])
    engine.history.broke("a", [record])
    assert engine.kinds("a") == ["broken"]
    assert "it hangs" in engine.history.of("a")[0].why
    assert engine.kinds("b") == ["gone"]
    assert engine.history.count("broken", engine.now) == 1


def test_an_exact_event_wins_over_a_difference_in_both_orders() -> None:
    for first in (True, False):
        engine = Engine()
        engine.look(("a", 1, True))
        exact = Event("released", NOW + 1.5, "a", f"{1:032x}", 1)
        if first:
            engine.history.add(exact)
        engine.look()
        engine.history.add(exact)
        assert engine.kinds("a") == ["released"]


def test_it_is_bounded_for_each_lock_and_in_all() -> None:
    history = History()
    for number in range(EACH + 50):
        history.add(Event("refused", NOW, "busy", ticket=number))
    assert len(history.of("busy")) == EACH
    assert history.of("busy")[-1].ticket == EACH + 49
    for number in range(MOST + 50):
        history.add(Event("granted", NOW, f"n{number}", f"{number:032x}", number))
    assert len(history.latest(10 * MOST)) == MOST
    assert history.of("busy") == []
    assert history.of("n49") == []
    assert len(history.of("n50")) == 1
    assert len(history._stages) == MOST
    assert len(history._locks) == MOST


def test_the_last_hour_is_counted_whatever_the_ring_has_dropped() -> None:
    history = History()
    for number in range(MOST + 5_000):
        history.add(Event("refused", NOW + number / 100, f"n{number}"))
    assert history.count("refused", NOW + 200) == MOST + 5_000
    assert history.count("refused", NOW + 3_600 + 300) == 0


def test_a_time_in_which_nobody_looked_is_named() -> None:
    engine = Engine()
    engine.look(("a", 1, True))
    engine.look(("a", 1, True), after=2.0)
    assert not engine.history.gaps
    engine.look(after=600.0)
    (gap,) = engine.history.gaps
    assert gap.ended - gap.began == 600.0
    picture = timeline(engine.history.of("a"), None, engine.history, engine.now)
    assert len(picture.gaps) == 1


def test_the_picture_shows_waits_holds_and_ends() -> None:
    engine = Engine()
    engine.look(("a", 1, True))
    engine.look(("a", 1, True), ("a", 2, False))
    engine.look(("a", 2, True))
    engine.history.broke("a", [Break(f"{1:032x}", 1, "ada", "it hangs", NOW)])
    picture = timeline(engine.history.of("a"), None, engine.history, engine.now + 5)
    second, first = picture.rows
    assert (first.end, second.end) == ("broken", "")
    assert first.hold is not None
    assert first.mark is not None
    assert second.wait is not None
    assert second.hold is not None
    assert second.wait.x + second.wait.width <= second.hold.x + 0.2
    assert "it hangs" in first.whole


def test_the_picture_cuts_no_process_id_in_half() -> None:
    who = "reports.py pid 32620 on web-3"
    event = Event("granted", NOW, "a", "1" * 32, 1, exclusive=True, who=who)
    (row,) = timeline([event], None, Engine().history, NOW + 5).rows
    assert row.who.startswith("reports.py pid 32620")
    assert row.whole.endswith(who)


@in_loop
async def test_a_page_shows_what_has_happened() -> None:
    async with dashboard() as (client, visitor):
        await visitor.get("/")
        lease = await client.lock("one", ttl=20).acquire()

        async def says(words: str) -> bool:
            return words in (await visitor.get("/lock", name="one")).text

        await until(lambda: says("granted"))
        (holder,) = await client.lock("one").holders()
        await client.revoke(holder, "a <test>", by="ada")
        await until(lambda: says("broken by ada"))
        text = (await visitor.get("/lock", name="one")).text
        assert "a &lt;test&gt;" in text
        assert "has watched since" in text

        async def counted() -> bool:
            return "1 broken" in (await visitor.get("/table")).text

        await until(counted)
        await lease.wait_lost()
        await asyncio.sleep(0)


@in_loop
async def test_clients_of_this_process_say_more_than_scans() -> None:
    async with dashboard("memory://heard") as (client, visitor), connect("memory://other") as far:
        await visitor.get("/")
        history = visitor.app._sources[""].reader.history
        async with client.lock("one", ttl=20), far.lock("far", ttl=20):
            pass
        lease = await client.lock("two", ttl=20).acquire()
        lease.fenced()
        observed = observer.watcher
        assert observed is not None
        observed.refused(client._session, "three", "")
        observed.refused(far._session, "far", "")

        async def heard() -> bool:
            await visitor.get("/table")
            return bool(history.of("three"))

        await until(heard)
        assert [event.kind for event in history.of("one")] == ["granted", "released"]
        assert [event.kind for event in history.of("three")] == ["refused"]
        assert history.of("far") == []
        with pytest.raises(LeaseLost):
            await lease.release()

        async def lost() -> bool:
            await visitor.get("/table")
            return [event.kind for event in history.of("two")] == ["granted", "lost"]

        await until(lost)
        assert "Lost, last hour</dt><dd>1<" in (await visitor.get("/table")).text
    assert observer.watcher is None
