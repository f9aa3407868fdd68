"""Who waits for whom: the picture, its bounds, and deadlocks."""

from __future__ import annotations

import asyncio
import json
import re
from itertools import pairwise

from lockfast.aio import connect
from lockfast.port import Entry, Kind
from lockfast.primitives.lock import Holder
from lockfast.show.graph import Graph
from lockfast.web.drawing.waits import BOXES, HIGH, WIDE, drawn
from tests.web.engines import dashboard, in_loop, until

URL = "memory://waits"


def claim(
    number: int, name: str, *, granted: bool, holding: dict[str, str] | None = None
) -> Holder:
    payload = {"host": "h", "pid": 1, "worker": f"w{number}", "holding": holding or {}}
    raw = json.dumps(payload).encode()
    return Holder(Entry(name, f"{number:032x}", number, granted, Kind.LOCK, 1, 1, 5.0, raw))


@in_loop
async def test_a_deadlock_is_told_and_marked() -> None:
    async with dashboard(URL) as (_, visitor), connect(URL, deadlock_after=None) as client:

        async def cross(one: str, other: str) -> None:
            async with client.lock(one, ttl=20):
                await both.wait()
                async with client.lock(other, ttl=20):
                    pass

        both = asyncio.Barrier(2)
        tasks = [asyncio.create_task(cross("a", "b")), asyncio.create_task(cross("b", "a"))]

        async def told() -> bool:
            return "Deadlock of 2 waiters" in (await visitor.get("/waits")).text

        await until(told)
        text = (await visitor.get("/waits")).text
        assert len(re.findall('class="box stuck"', text)) == 2
        assert len(re.findall('class="line stuck"', text)) == 2
        assert "To end it, stop a process" in text
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

        async def over() -> bool:
            return "Nobody waits" in (await visitor.get("/waits")).text

        await until(over)


def test_a_chain_is_drawn_from_left_to_right() -> None:
    claims = [
        claim(1, "a", granted=True),
        claim(2, "a", granted=False, holding={f"{3:032x}": "b"}),
        claim(3, "b", granted=True),
        claim(4, "b", granted=False),
    ]
    picture = drawn(list(Graph(claims).roots()), (), left_out=0, cut=False)
    assert [(box.holds, box.waits) for box in picture.boxes] == [
        ("holds a", ""),
        ("holds b", "waits for a"),
        ("", "waits for b"),
    ]
    assert [box.x for box in picture.boxes] == sorted({box.x for box in picture.boxes})
    assert len(picture.lines) == 2
    assert not any(line.stuck for line in picture.lines)


def test_many_waiters_and_many_holders_are_counted() -> None:
    claims = [
        claim(1_000 * name + number, f"n{name:03}", granted=number == 0)
        for name in range(100)
        for number in range(30)
    ]
    picture = drawn(list(Graph(claims).roots()), (), left_out=0, cut=False)
    assert len(picture.boxes) <= BOXES
    assert picture.cut
    assert picture.notes[0].words == "and 24 more wait"
    assert all(12 <= box.x <= picture.width - WIDE for box in picture.boxes)
    assert all(12 <= box.y <= picture.height - HIGH for box in picture.boxes)


def test_no_two_boxes_overlap() -> None:
    ids = [f"{number:032x}" for number in range(50)]
    claims = [claim(number, f"n{number:02}", granted=True) for number in range(12)]
    claims += [
        claim(20 + number, f"n{(number + 1) % 12:02}", granted=False, holding={ids[number]: "x"})
        for number in range(12)
    ]
    claims += [claim(40, "n00", granted=False), claim(41, "n05", granted=False)]
    claims.sort(key=lambda each: (each.name, not each.granted, each.ticket))
    stuck = {each.id for each in claims if not each.granted}
    picture = drawn(list(Graph(claims).roots(ids[:1])), stuck, left_out=0, cut=False)
    places = [(box.x, box.y) for box in picture.boxes]
    assert len(places) == len(set(places))
    for x in {x for x, _ in places}:
        column = sorted(y for each, y in places if each == x)
        assert all(b - a >= HIGH for a, b in pairwise(column))
    back = [line for line in picture.lines if line.stuck]
    assert len(back) >= 12
