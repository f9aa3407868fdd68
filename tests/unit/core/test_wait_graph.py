"""The wait-for graph, against a simulation that lets everybody who can finish do so."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from itertools import count
from typing import NamedTuple

from lockfast.core.wait_graph import Waits
from lockfast.port import Entry, Kind

WORLDS = 1000
KIND = Kind.SEMAPHORE
CAPACITIES = {"a": 1, "b": 1, "c": 2, "d": 3, "e": 100}


class World(NamedTuple):
    """Queues, and for each waiting claim whose it is and what that one holds."""

    queues: dict[str, list[Entry]]
    owners: dict[str, int]
    waiting: dict[int, Entry]

    @property
    def holding(self) -> dict[str, dict[str, str]]:
        return {
            entry.id: {
                each.id: name
                for name, queue in self.queues.items()
                for each in queue
                if each.granted and self.owners[each.id] == owner
            }
            for owner, entry in self.waiting.items()
        }


def world_of(seed: int) -> World:
    """Let some threads claim at random, each until it has to wait: as the one rule has it."""
    chance = random.Random(seed)  # noqa: S311  # the same each time
    queues: dict[str, list[Entry]] = {name: [] for name in CAPACITIES}
    owners: dict[str, int] = {}
    waiting: dict[int, Entry] = {}
    tickets = count(1)
    for _ in range(chance.randint(1, 24)):
        free = [number for number in range(6) if number not in waiting]
        if not free:
            break
        owner = chance.choice(free)
        name = chance.choice(sorted(CAPACITIES))
        capacity = CAPACITIES[name] + chance.choice([0, 0, 0, 1, 2])  # a semaphore that was changed
        weight = chance.choice([1, max(capacity // 2, 1), capacity])
        queue, ticket = queues[name], next(tickets)
        load = sum(each.weight for each in queue) + weight
        fits = load <= capacity and all(each.granted for each in queue)
        entry = Entry(name, f"{ticket:032x}", ticket, fits, KIND, weight, capacity, 10.0, b"")
        queue.append(entry)
        owners[entry.id] = owner
        if not fits:
            waiting[owner] = entry
    return World(queues, owners, waiting)


def survivors(world: World) -> set[str]:
    """Let everybody finish who can; give the waiting claims of those who cannot, ever."""
    queues = {name: list(queue) for name, queue in world.queues.items()}
    stuck = dict(world.waiting)
    done: set[int] = set()
    while True:
        able = {owner for owner in world.owners.values() if owner not in stuck} - done
        done |= able
        for name, queue in queues.items():
            queues[name] = [each for each in queue if world.owners[each.id] not in able]
        waits = {entry.id for entry in stuck.values()}
        granted = {o for o, entry in stuck.items() if fits(queues[entry.name], entry, waits)}
        if not able and not granted:
            return {entry.id for entry in stuck.values()}
        for owner in granted:
            del stuck[owner]


def fits(queue: list[Entry], entry: Entry, waits: set[str]) -> bool:
    ahead = [each for each in queue if each.ticket < entry.ticket]
    weight = sum(each.weight for each in ahead) + entry.weight
    return weight <= entry.capacity and not any(each.id in waits for each in ahead)


def in_every_world(test: Callable[[World], None]) -> Callable[[], None]:
    """Try many, and tell which one it was."""

    def call() -> None:
        for seed in range(WORLDS):
            try:
                test(world_of(seed))
            except AssertionError as error:
                error.add_note(f"in world_of({seed})")
                raise

    call.__name__ = test.__name__
    return call


def test_a_good_part_of_the_worlds_has_a_deadlock() -> None:
    stuck = sum(bool(survivors(world_of(seed))) for seed in range(WORLDS))
    assert 0.1 < stuck / WORLDS < 0.9


@in_every_world
def test_exactly_those_are_stuck_who_never_finish(world: World) -> None:
    assert Waits(world.queues, world.holding).stuck == survivors(world)


@in_every_world
def test_where_somebody_is_stuck_there_is_a_circle_and_every_step_of_it_is_true(
    world: World,
) -> None:
    waits = Waits(world.queues, world.holding)
    circles = [waits.circle(id_) for id_ in sorted(waits.stuck)]
    assert any(circles) == bool(waits.stuck)
    for circle in filter(None, circles):
        for link, following in zip(circle, circle[1:] + circle[:1], strict=True):
            assert link.waiting.name == link.blocker.name
            assert link.blocker.ticket < link.waiting.ticket
            assert not link.waiting.granted
            assert world.owners[link.blocker.id] == world.owners[following.waiting.id]
        ids = [link.waiting.id for link in circle]
        assert len(set(ids)) == len(ids)
    for entry in world.waiting.values():
        if entry.id not in waits.stuck:
            assert waits.circle(entry.id) == []


@in_every_world
def test_when_the_youngest_of_each_circle_gives_way_everybody_else_finishes(world: World) -> None:
    for _ in range(10):
        waits = Waits(world.queues, world.holding)
        victims = set()
        for id_ in waits.stuck:
            circle = waits.circle(id_)
            if circle and max(link.waiting.ticket for link in circle) == int(id_, 16):
                victims.add(world.owners[id_])
        if not waits.stuck:
            return
        assert victims, "a deadlock, and nobody gives way"
        world = without(world, victims)
    raise AssertionError("it never ended")


def without(world: World, victims: set[int]) -> World:
    """Take away those who gave way, with all they held; let in whom that lets in."""
    queues: dict[str, list[Entry]] = {}
    waiting = {owner: each for owner, each in world.waiting.items() if owner not in victims}
    for name, queue in world.queues.items():
        left = [each for each in queue if world.owners[each.id] not in victims]
        behind = {each.id for each in left}
        queues[name] = []
        for each in left:
            granted_now = fits(left, each, behind)
            behind -= {each.id} if granted_now else set()
            queues[name].append(each._replace(granted=granted_now))
    granted = {each.id for queue in queues.values() for each in queue if each.granted}
    waiting = {owner: each for owner, each in waiting.items() if each.id not in granted}
    return World(queues, world.owners, waiting)


def queue_of(name: str, capacity: int, *claims: tuple[int, int, bool]) -> dict[str, list[Entry]]:
    return {
        name: [
            Entry(name, f"{ticket:032x}", ticket, granted, KIND, weight, capacity, 9.0, b"")
            for ticket, weight, granted in claims
        ]
    }


def held(*pairs: tuple[int, Mapping[int, str]]) -> dict[str, dict[str, str]]:
    return {
        f"{waiting:032x}": {f"{each:032x}": name for each, name in some.items()}
        for waiting, some in pairs
    }


def test_one_who_waits_for_itself_is_a_circle_of_one_unless_it_has_a_timeout() -> None:
    queues = queue_of("x", 1, (1, 1, True), (2, 1, False))
    me = f"{2:032x}"
    circle = Waits(queues, held((2, {1: "x"}))).circle(me)
    assert [(link.waiting.ticket, link.blocker.ticket) for link in circle] == [(2, 1)]
    assert Waits(queues, held((2, {1: "x"})), lenient=me).circle(me) == []


def test_with_a_timeout_ones_own_permits_may_come_back_and_let_one_in() -> None:
    # 1 and 2 hold a permit each; 3 is a second claim of the first, and the other waits for it.
    queues = {
        **queue_of("s", 2, (1, 1, True), (2, 1, True), (3, 1, False)),
        **queue_of("a", 1, (4, 1, True), (5, 1, False)),
    }
    holding = held((3, {1: "s", 4: "a"}), (5, {2: "s"}))
    me = f"{3:032x}"
    assert Waits(queues, holding).circle(me)
    assert Waits(queues, holding, lenient=me).circle(me) == []


def test_a_wait_that_was_given_up_and_not_yet_removed_is_not_taken_for_the_last_one() -> None:
    # 1 held a, waited for b with claim 3, gave that up, and waits for c with claim 5 now.
    queues = {
        **queue_of("a", 1, (1, 1, True), (4, 1, False)),
        **queue_of("b", 1, (2, 1, True), (3, 1, False)),
        **queue_of("c", 1, (6, 1, True), (7, 1, False)),
    }
    holding = held((3, {1: "a"}), (4, {2: "b"}), (7, {1: "a"}))
    assert Waits(queues, holding).circle(f"{4:032x}") == []


def test_a_crowd_of_a_thousand_is_searched_in_a_moment() -> None:
    queues = queue_of("x", 1, *((n, 1, n == 1) for n in range(1, 1001)))
    holding = held(*((n, {}) for n in range(2, 1001)))
    waits = Waits(queues, holding)
    assert waits.stuck == set()


def test_a_lenient_claim_does_not_wait_for_who_waits_for_its_own_thread() -> None:
    """Who waits behind what the lenient claim's thread holds stands in nobody's way for ever."""
    queues = {
        **queue_of("s", 4, (1, 3, True), (2, 1, True), (5, 1, False), (6, 1, False)),
        **queue_of("t", 1, (3, 1, True), (4, 1, False)),
    }
    holding = held((6, {1: "s", 3: "t"}), (4, {2: "s"}), (5, {}))
    assert Waits(queues, holding, lenient=f"{6:032x}").stuck == set()
    assert f"{6:032x}" in Waits(queues, holding).stuck
