"""What somebody else has written into our keys: a script that fails has written nothing itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator

import pytest

from lockfast.engines.redis.keys import keys
from lockfast.engines.redis.scripts import CLAIM
from lockfast.engines.redlock import messages
from lockfast.engines.redlock.scripts import CLAIM as PROPOSE
from lockfast.engines.redlock.scripts import INSTALL
from lockfast.engines.redlock.scripts import RESIGN as WITHDRAW
from lockfast.errors import EngineError, EngineRefused
from lockfast.port import LONGEST, LONGEST_WAIT, Ask, Standing
from lockfast.testing import Actor, Stage
from tests.contract.benches import RedisBench, server_of
from tests.servers import Redis, RedlockSet
from tests.servers.node import rows, text
from tests.servers.resp import ReplyError

TAG = f"lockfast:{{{keys('x').bucket}}}"
LOCK, ORDER, RECORDS = f"{TAG}=x", f"{TAG}>x", f"{TAG}#x"
ENDLESS = "9" * 400
STRANGER = "a" * 32
Spoil = Callable[[Redis, list[str]], object]
Act = Callable[[Actor, list[Ask]], Awaitable[object]]


@pytest.fixture(scope="module")
def bench() -> Iterator[RedisBench]:
    with Redis() as server:
        yield RedisBench(server.url, server)


def content(server: Redis) -> dict[str, object]:
    """Read everything that is stored, but for expiries."""
    reads = {
        "string": ("GET",),
        "zset": ("ZRANGE", "0", "-1", "WITHSCORES"),
        "hash": ("HGETALL",),
        "list": ("LRANGE", "0", "-1"),
    }
    found: dict[str, object] = {}
    for key in map(text, rows(server.command("KEYS", "*"))):
        command, *rest = reads[text(server.command("TYPE", key))]
        found[key] = server.command(command, key, *rest)
    return found


def _writes(*args: str) -> Spoil:
    """Write to the lock's key, for a minute."""
    return lambda server, _: server.command("SET", LOCK, *args, "PX", "60000")


def _becomes_a_list(key: str) -> Spoil:
    return lambda server, _: (server.command("DEL", key), server.command("RPUSH", key, "x"))


def _scores(score: str, *which: int) -> Spoil:
    """Give the expiries of some claims a score."""
    return lambda server, ids: [server.command("ZADD", ORDER, score, f"~{ids[i]}") for i in which]


def _renames(member: str, which: int) -> Spoil:
    """Put another member in the place of one of a claim's: the number of them stays."""

    def spoil(server: Redis, ids: list[str]) -> None:
        server.command("ZREM", ORDER, member.format(ids[which]))
        server.command("ZADD", ORDER, "1e300", "somebody")

    return spoil


def _says(record: str, which: int, *, expired: bool = False) -> Spoil:
    """Give a claim another record; `{}` is its ticket."""

    def spoil(server: Redis, ids: list[str]) -> None:
        ticket = text(server.command("HGET", RECORDS, ids[which])).split()[0]
        server.command("HSET", RECORDS, ids[which], record.format(ticket))
        if expired:
            server.command("ZADD", ORDER, "-5", f"~{ids[which]}")

    return spoil


def _twice_expired(server: Redis, ids: list[str]) -> None:
    """Have two members tell that one claim has expired, and no others."""
    server.command("DEL", ORDER, RECORDS)
    one, other = ids[0], "a" + ids[0]
    for each in (one, other):
        server.command("HSET", RECORDS, each, "5 v1 1 1 1 1000 {}")
    server.command("ZADD", ORDER, "5", one, "-4", f"~{one}", "-6", other, "-5", f"~{other}")


SOLE: dict[str, Spoil] = {
    "a ticket without end": _writes(f"{STRANGER} {ENDLESS} v1 1 1 1 5000 {{}}"),
    "a ticket of 2^53 - 1": _writes(f"{STRANGER} {2**53 - 1} v1 1 1 1 5000 {{}}"),
    "a ticket above 2^53": _writes(f"{STRANGER} {10**16 - 1} v1 1 1 1 5000 {{}}"),
    "a weight without end": _writes(f"{STRANGER} 5 v1 3 1 {ENDLESS} 5000 {{}}"),
    "a capacity without end": _writes(f"{STRANGER} 5 v1 3 {ENDLESS} 1 5000 {{}}"),
    "a ttl without end": _writes(f"{STRANGER} 5 v1 1 1 1 {ENDLESS} {{}}"),
    "a kind that does not exist": _writes(f"{STRANGER} 5 v1 7 1 1 5000 {{}}"),
    "a format without end": _writes(f"{STRANGER} 5 v{ENDLESS} 1 1 1 5000 {{}}"),
    "no claim": _writes("hello"),
    "nothing": _writes(""),
    "a list": _becomes_a_list(LOCK),
    "our id and no claim": lambda server, ids: server.command("SET", LOCK, f"{ids[0]} xx"),
    "our id and a ticket above 2^53": lambda server, ids: server.command(
        "SET", LOCK, f"{ids[0]} {ENDLESS} v1 1 1 1 5000 {{}}"
    ),
    "a queue's state and no queue": _writes("Q hello"),
}
QUEUE: dict[str, Spoil] = {
    **{f"an expiry of {score}": _scores(score, 2) for score in ("-inf", "-1e300", "-1e19", "inf")},
    "a holder's expiry of -inf": _scores("-inf", 0),
    "all expiries of -inf": _scores("-inf", 0, 1, 2),
    "no expiries": _scores("1e300", 0, 1, 2),
    "a waiter without an expiry": _renames("~{}", 1),
    "an expired holder, and a waiter without an expiry": lambda server, ids: (
        _scores("-5", 0)(server, ids),
        _renames("~{}", 1)(server, ids),
    ),
    "an expired holder, and waiters without expiries": lambda server, ids: (
        _scores("-5", 0)(server, ids),
        _scores("1e300", 1, 2)(server, ids),
    ),
    "a waiter that is not in the order": _renames("{}", 1),
    "a waiter before all others": lambda server, ids: server.command("ZADD", ORDER, "-inf", ids[1]),
    "one that expired twice": _twice_expired,
    "an order that is a list": _becomes_a_list(ORDER),
    "an order that is a string": lambda server, _: server.command("SET", ORDER, "x"),
    "records that are a list": _becomes_a_list(RECORDS),
    "a record with a weight without end": _says(f"{{}} v1 1 1 {ENDLESS} 5000 p", 1, expired=True),
    "a record with a ttl without end": _says(f"{{}} v1 1 1 1 {ENDLESS} p", 0),
    "a record with a ttl of years": _says("{} v1 1 1 1 99999999999 p", 1),
    "a record with a ticket above 2^53": _says(f"{10**16 - 1} v1 1 1 1 5000 p", 1),
    "a record with a heavy weight": _says("{} v1 1 1 7 5000 p", 1, expired=True),
    "a record of another kind": _says("{} v1 3 5 1 5000 p", 1),
    "a record of another format": _says("{} v2 whatever", 1),
    "a record of another format that has expired": _says("{} v2 whatever", 1, expired=True),
    "no state": _writes("Q hello"),
    "a state of numbers without end": _writes("Q v1 1" + f" {ENDLESS}" * 6),
    "a state whose newest ticket is 2^53 - 1": _writes(f"Q v1 1 1 1 5 {2**53 - 1} 5 5"),
    "a state whose newest ticket is above": _writes(f"Q v1 1 1 1 5 {10**20} 5 5"),
    "a state whose frontier is above": _writes(f"Q v1 1 1 1 {10**20} {10**20} 5 5"),
    "a state of a time to come": _writes("Q v1 1 1 1 5 5 9000000000000000 9000000000000000"),
    "a state of a kind that does not exist": _writes("Q v1 7 1 1 5 5 5 5"),
    "a state that holds more than there are": _writes("Q v1 1 9 9 5 5 5 5"),
}


ACTS: dict[str, Act] = {
    "claim": lambda actor, _: actor.claim(actor.ask(ttl=20)),
    "try": lambda actor, _: actor.claim(actor.ask(ttl=20, queue=False)),
    "claim the first again": lambda actor, asks: actor.engine.claim(asks[0], actor.deadline),
    "claim the second again": lambda actor, asks: actor.engine.claim(asks[1], actor.deadline),
    "renew the first": lambda actor, asks: actor.renew(asks[0]),
    "renew all": lambda actor, asks: actor.renew(*asks),
    "resign the first": lambda actor, asks: actor.resign(asks[0]),
    "resign the second": lambda actor, asks: actor.resign(asks[1]),
    "break the first": lambda actor, asks: actor.resign(asks[0], doubt=True),
    "break the second": lambda actor, asks: actor.resign(asks[1], doubt=True),
}


async def _outcome(actor: Actor, asks: list[Ask], act: Act) -> EngineError | None:
    """Act, and return the error of the engine that came of it; a renewal's, if all of it failed."""
    try:
        found = await act(actor, asks)
    except EngineError as error:
        return error
    failed = [each for each in found if each] if isinstance(found, list) else []
    return failed[0] if failed and all(isinstance(e, EngineError) for e in failed) else None


async def _spoilt(stage: Stage, actor: Actor, spoil: str) -> list[Ask]:
    """Have a lock, or a queue of three, and spoil it. Return the claims."""
    stage.bench.wipe()
    asks = [actor.ask(ttl=20) for _ in range(3)]
    for ask in asks[: 1 if spoil in SOLE else 3]:
        await actor.claim(ask)
    (SOLE | QUEUE)[spoil](server_of(stage), [ask.id for ask in asks])
    return asks


@pytest.mark.parametrize("spoil", [*SOLE, *QUEUE])
def test_a_script_that_fails_has_written_nothing(stage: Stage, spoil: str) -> None:
    server = server_of(stage)

    async def play() -> None:
        actor, wrong = stage.actor(), []
        for what, act in ACTS.items():
            asks = await _spoilt(stage, actor, spoil)
            before = content(server)
            error = await _outcome(actor, asks, act)
            if error is not None:
                if not isinstance(error, EngineRefused):  # its reply was not believed
                    wrong.append((what, error, "no error of a script"))
                elif content(server) != before:
                    wrong.append((what, error, "half done"))
        assert wrong == []

    stage.mode.run(play())


@pytest.mark.parametrize("spoil", [*SOLE, *QUEUE])
def test_a_spoilt_lock_is_renewed_or_not_and_the_rest_of_its_batch_is(
    stage: Stage, spoil: str
) -> None:
    """One value that was our id and no ticket cut the reply: all claims of the batch were lost."""

    async def play() -> None:
        actor = stage.actor()
        asks = await _spoilt(stage, actor, spoil)
        sound = [actor.ask(name, ttl=20) for name in ("a", "b")]
        for ask in sound:
            await actor.claim(ask)
        first, *_, last = await actor.renew(sound[0], *asks, sound[1])
        assert isinstance(first, Standing)
        assert isinstance(last, Standing)

    stage.mode.run(play())


@pytest.mark.parametrize("spoil", [*SOLE, *QUEUE])
def test_a_spoilt_lock_does_not_keep_others_from_being_acquired_and_released_with_it(
    stage: Stage, spoil: str
) -> None:
    """One call carries several claims, and an error in it concerns one of them only."""

    async def play() -> None:
        actor = stage.actor()
        await _spoilt(stage, actor, spoil)
        asks = [actor.ask("a", ttl=20), actor.ask(ttl=20), actor.ask("b", ttl=20)]
        first, _, last = await actor.engine.claim_all(asks, actor.deadline)
        assert isinstance(first, Standing)
        assert isinstance(last, Standing)
        gone = await actor.engine.resign(asks, actor.deadline, doubt=True)
        assert [gone[0], gone[2]] == [True, True]

    stage.mode.run(play())


@pytest.mark.parametrize("score", ["-inf", "-1e300", "-1e19"])
def test_an_expiry_without_end_keeps_nobody_from_queueing(stage: Stage, score: str) -> None:
    """PEXPIREAT refused it, after the claim had been queued and before it was counted."""
    server = server_of(stage)

    async def play() -> None:
        actor = stage.actor()
        asks = [actor.ask(ttl=20) for _ in range(3)]
        for ask in asks[:2]:
            await actor.claim(ask)
        server.command("ZADD", ORDER, score, f"~{asks[1].id}")
        assert (await actor.claim(asks[2])).ahead == 2
        newest = text(server.command("HGET", RECORDS, asks[2].id)).split()[0]
        assert text(server.command("GET", LOCK)).split()[6] == newest  # it is in the state
        for key in (LOCK, ORDER, RECORDS):
            left = server.command("PTTL", key)
            assert isinstance(left, int)
            assert 0 < left <= (LONGEST + 10) * 1000
        assert await actor.resign(asks[0]) == [True]
        assert (await actor.renew_one(asks[1])).granted  # which gives it an end again
        assert await actor.resign(asks[1]) == [True]
        assert (await actor.renew_one(asks[2])).granted

    stage.mode.run(play())


def test_a_break_that_fails_leaves_no_tombstone_and_one_that_does_not_leaves_one(
    stage: Stage,
) -> None:
    server = server_of(stage)

    async def play() -> None:
        actor = stage.actor()
        asks = [actor.ask(ttl=20) for _ in range(3)]
        for ask in asks:
            await actor.claim(ask)
        assert await actor.resign(asks[2], doubt=True) == [True]
        assert server.command("EXISTS", f"{TAG}!{asks[2].id}") == 1
        assert await actor.is_dead(asks[2])
        _becomes_a_list(ORDER)(server, [])
        with pytest.raises(EngineRefused, match="WRONGTYPE"):
            await actor.resign(asks[1], doubt=True)
        assert server.command("EXISTS", f"{TAG}!{asks[1].id}") == 0
        server.command("DEL", LOCK)
        assert await actor.resign(asks[1], doubt=True) == [False]
        assert await actor.is_dead(asks[1])

    stage.mode.run(play())


@pytest.mark.parametrize("queued", [False, True])
def test_a_tombstone_that_was_to_stand_for_ever_still_stands(stage: Stage, *, queued: bool) -> None:
    """Its end was rounded up to 2^63, which SET refused: after lock and tombstone were deleted."""
    server = server_of(stage)

    async def play() -> None:
        actor = stage.actor()
        ask = actor.ask(ttl=20)
        await actor.claim(ask)
        if queued:
            await actor.claim(actor.ask(ttl=20))
        server.command("SET", f"{TAG}!{ask.id}", "", "PXAT", str(2**63 - 1))
        assert await actor.resign(ask, doubt=True) == [True]
        assert await actor.is_dead(ask)

    stage.mode.run(play())


def test_the_longest_lives_in_the_scripts_are_those_of_the_port() -> None:
    assert b"local LONGEST = %d " % (LONGEST * 1000) in CLAIM.source
    assert b"local LONGEST_WAIT = %d " % (LONGEST_WAIT * 1000) in CLAIM.source


# --- Redlock ------------------------------------------------------------------------------------

MARK = messages.mark_key(messages.keys("x").bucket)
HELD, ROOM, ROOM_RECORDS = f"{MARK}=x", f"{MARK}>x", f"{MARK}#x"


@pytest.fixture(scope="module")
def node() -> Iterator[Redis]:
    with RedlockSet(1) as servers:
        yield servers.nodes[0]


@pytest.fixture
def fresh(node: Redis) -> Redis:
    node.command("DEL", HELD, ROOM, ROOM_RECORDS)
    node.command("SET", MARK, f"{5:016d} 1000")
    return node


def _propose(node: Redis, ident: str, token: int, *, since: int, wait: int = 0) -> object:
    said = f"{ident} {token:016d} - v1 1 1 1 1000 {{}}"
    return node.command(
        *("EVAL", PROPOSE.source, "2", HELD, MARK, said, "1000", f"{since:016d} {0:016d} {wait}")
    )


def _withdraw(node: Redis, ident: str, token: int = 0) -> object:
    said = f"{ident} {token:016d} - "
    return node.command("EVAL", WITHDRAW.source, "2", HELD, MARK, said, "300")


def test_a_mark_of_a_wrong_type_does_not_stop_a_break_half_way(fresh: Redis) -> None:
    """The lock was deleted, nobody was invited, and whoever broke it was told that it failed."""
    assert _propose(fresh, STRANGER, 7, since=7) == 1
    _propose(fresh, "b" * 32, 8, since=8, wait=1000)
    _becomes_a_list(MARK)(fresh, [])
    assert _withdraw(fresh, STRANGER) == 1
    assert text(fresh.command("GET", HELD)).startswith("R" + "b" * 32)
    fresh.command("DEL", MARK)


def test_a_mark_that_is_none_of_ours_does_not_stop_a_proposal_half_way(fresh: Redis) -> None:
    """It had left the waiting room by then."""
    assert _propose(fresh, STRANGER, 7, since=7) == 1
    _propose(fresh, "b" * 32, 8, since=8, wait=1000)
    fresh.command("DEL", HELD)
    fresh.command("SET", MARK, f"{7:016d} scrawl")
    before = content(fresh)
    with pytest.raises(ReplyError, match="LOCKFAST the mark is not one of ours"):
        _propose(fresh, "b" * 32, 9, since=8, wait=1000)
    assert content(fresh) == before


@pytest.mark.parametrize("scrawl", ["hello", "", STRANGER])
def test_a_lock_that_is_none_of_ours_is_named_and_nothing_is_written(
    fresh: Redis, scrawl: str
) -> None:
    fresh.command("SET", HELD, scrawl)
    before = content(fresh)
    with pytest.raises(ReplyError, match="LOCKFAST the value of the lock is not one of ours"):
        _propose(fresh, "b" * 32, 9, since=9, wait=1000)
    assert content(fresh) == before


@pytest.mark.parametrize("key", [ROOM, ROOM_RECORDS])
def test_what_is_left_of_a_spoilt_waiting_room_ends_by_itself(fresh: Redis, key: str) -> None:
    """The order had no end when the records were no hash."""
    assert _propose(fresh, STRANGER, 7, since=7) == 1
    _becomes_a_list(key)(fresh, [])
    _propose(fresh, "b" * 32, 8, since=8, wait=1000)
    (other,) = {ROOM, ROOM_RECORDS} - {key}
    assert fresh.command("PTTL", other) != -1


@pytest.mark.parametrize("score", ["inf", "1e300"])
def test_a_waiter_with_a_strange_number_does_not_spoil_the_lock(fresh: Redis, score: str) -> None:
    assert _propose(fresh, STRANGER, 7, since=7) == 1
    _propose(fresh, "b" * 32, 8, since=8, wait=1000)
    fresh.command("ZADD", ROOM, score, "b" * 32)
    assert _withdraw(fresh, STRANGER) == 1
    assert _propose(fresh, "c" * 32, 10, since=10) == 1


def test_a_mark_of_a_wrong_type_does_not_stop_an_installation_half_way() -> None:
    with Redis() as server:
        server.command("RPUSH", messages.mark_key(500), "x")
        server.command(
            *("EVAL", INSTALL.source, "1", messages.MEMBER, messages.PREFIX, "1024", f"{5:016d}")
        )
        marks = rows(server.command("MGET", *map(messages.mark_key, range(1024))))
        assert all(messages.mark(mark) for mark in marks)
