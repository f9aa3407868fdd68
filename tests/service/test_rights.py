"""Who may do what: subjects, verbs and prefixes, as raw clients of a real replica see them."""

from __future__ import annotations

import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed

import lockfast
from lockfast.claims import payload
from lockfast.claims.break_records import read as read_record
from lockfast.claims.break_records import written
from lockfast.engines.remote import messages
from lockfast.engines.remote.messages import Break, Done, Failed, Gone, Inspect, Page, Said
from lockfast.errors import EngineRefused
from lockfast.port import Standing
from lockfast.runtime.aio import Aio
from lockfast.service.admission import Admission
from lockfast.service.app import App
from lockfast.service.caller import Caller
from lockfast.service.figures import Figures
from lockfast.service.keys import Keys, new_key, stored
from lockfast.service.replica import Replica
from lockfast.service.requests import ask_of
from lockfast.service.rights import Limits, Rights
from lockfast.service.usage import Usage
from lockfast.service.watch import Watch
from lockfast.service.websocket import Message
from tests.servers import Redis
from tests.service.peers import Held, in_loop
from tests.service.served import SOON, Served, Voice, bearer

ORDERS, OPS, NOTHING = new_key(), new_key(), new_key()
KEYS = "\n".join(
    ["[keys]", stored("orders", ORDERS), stored("ops", OPS), stored("nothing", NOTHING)]
)
CONFIG = f"""
{KEYS}

[subjects.orders]
claim = ["orders/", "shared"]
inspect = ["orders/"]

[subjects.ops]
inspect = [""]
break = ["orders/", "shared"]
"""
MAY = {
    ("orders", "claim"): {"orders/1", "orders/", "shared", "shared/2"},
    ("orders", "inspect"): {"orders/1", "orders/"},
    ("ops", "inspect"): {"orders/1", "orders/", "orders", "Orders/1", "shared", "shared/2", "x"},
    ("ops", "break"): {"orders/1", "orders/", "shared", "shared/2"},
}
NAMES = ["orders/1", "orders/", "orders", "Orders/1", "shared", "shared/2", "x"]
WHO = {"orders": ORDERS, "ops": OPS, "nothing": NOTHING}


@pytest.fixture(scope="module")
def redis() -> Iterator[Redis]:
    with Redis() as found:
        yield found


@pytest.fixture(scope="module")
def served(redis: Redis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("served"), redis.url, CONFIG) as found:
        yield found


def why(reply: object) -> str:
    """Return why a request was refused. Empty: it was not."""
    if isinstance(reply, Failed):
        return reply.fault.why
    assert isinstance(reply, Said | Gone | Page | Done), reply
    faults = getattr(reply, "faults", [])
    return faults[0].why if faults else ""


def done(voice: Voice, verb: str, name: str) -> object:
    """Do something to a lock."""
    if verb == "claim":
        asked = voice.new(name, queue=False)
        said = voice.claim(asked)
        voice.call(messages.Resign(0, 2.0, [asked]))
        return said
    if verb == "inspect":
        return voice.call(Inspect(0, name, exact=True))
    asked = voice.new(name)
    asked.id = "0" * 32
    return voice.call(Break(0, 2.0, [asked]))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("verb", ["claim", "inspect", "break"])
@pytest.mark.parametrize("who", WHO)
def test_each_subject_may_do_what_is_configured_and_nothing_else(
    served: Served, who: str, verb: str, name: str
) -> None:
    with served.voice(bearer(WHO[who])) as voice:
        refused = why(done(voice, verb, name))
    if name in MAY.get((who, verb), ()):
        assert not refused
    else:
        assert f"'{who}' may not {verb} the lock {name!r}" in refused
        assert f"`{verb}` of [subjects.{who}]" in refused
        assert "HUP" in refused


def test_a_prefix_is_listed_only_if_all_of_it_may_be_seen(served: Served) -> None:
    with served.voice(bearer(ORDERS)) as voice:
        assert not why(voice.call(Inspect(0, "orders/")))
        assert not why(voice.call(Inspect(0, "orders/2")))
        assert "may not inspect all locks" in why(voice.call(Inspect(0, "")))
        for prefix in ("order", "x"):
            assert f"whose names begin with {prefix!r}" in why(voice.call(Inspect(0, prefix)))
    with served.voice(bearer(OPS)) as voice:
        assert not why(voice.call(Inspect(0, "")))


def test_a_denied_claim_does_not_fail_its_neighbours(served: Served) -> None:
    with served.voice(bearer(ORDERS)) as voice:
        asks = [voice.new("orders/b1"), voice.new("x"), voice.new("orders/b2")]
        said = voice.claim(*asks)
        assert [stood is not None and stood.granted for stood in said.results] == [
            True,
            False,
            True,
        ]
        (fault,) = said.faults
        assert (fault.at, fault.kind) == (1, "refused")


def test_nobody_gets_in_without_a_valid_key(served: Served) -> None:
    assert served.status() == 401
    assert served.status(bearer(new_key())) == 401
    assert served.status([*bearer(ORDERS), ("Origin", "https://evil.example")]) == 403
    assert served.status([*bearer(ORDERS), ("X-Client", "CN=ops")]) == 101  # it means nothing here


def test_the_claims_of_another_client_are_not_ones_own(served: Served) -> None:
    with served.voice(bearer(ORDERS)) as one, served.voice(bearer(ORDERS)) as other:
        asked = one.new("orders/mine")
        assert one.claim(asked).results[0] is not None
        for kind in (messages.Renew, messages.Resign):
            assert "another client" in why(other.call(kind(0, 2.0, [asked])))
        assert "may not break" in why(other.call(Break(0, 2.0, [asked])))
        (stood,) = one.renew(asked).results
        assert stood is not None
        assert stood.granted


def test_an_oversized_message_ends_its_own_connection_only(served: Served) -> None:
    with served.voice(bearer(ORDERS)) as big, served.voice(bearer(ORDERS)) as other:
        big.socket.send("x" * (messages.LARGEST + 1))
        with pytest.raises(ConnectionClosed):
            [big.socket.recv(SOON) for _ in range(5)]
        assert other.claim(other.new("orders/unharmed")).results[0] is not None


def test_a_waiter_learns_who_blocks_it_only_if_it_may_inspect(served: Served) -> None:
    with served.voice(bearer(ORDERS)) as holder, served.voice(bearer(ORDERS)) as waiter:
        for name, seen in (("orders/blocked", True), ("shared/blocked", False)):
            assert holder.claim(holder.new(name)).results[0] is not None
            (stood,) = waiter.claim(waiter.new(name)).results
            assert stood is not None
            assert stood.ahead == 1
            assert (stood.blocker is not None) is seen
        (stood,) = holder.claim(holder.new("shared/blocked")).results
        assert stood is not None
        assert stood.blocker is not None  # it is its own
        assert stood.blocker.id.startswith(holder.client)


@pytest.mark.parametrize(
    "forged",
    [
        b"",
        b"{}",
        b'{"host": "h"}',
        b'{"host": "h", "subject": "root", "address": "8.8.8.8"}',
        b'{"host": "h", "s\\u0075bject": "root"}',
        b'{"subject":"root","x":{"y":1}',
        b'{"subject":"root","x":["y"}',
        b'{"subject":"root","x":"}',
        b'{"subject":"root"}}',
        b"[1]",
        b'"subject"',
        b"\xff\xfe",
        b'{"x":' + b"[" * 5_000 + b"]" * 5_000 + b"}",
        b'{"x":' + b"[" * 900 + b"]" * 900 + b"}",
        b'{"x":1} {"y":2}',
        b'{"x":1,}',
        b'{"x":01}',
        b'{"x":"\xff"}',
        b'{"x":"\n"}',
        b'{"x":' + b"1" * 5_000 + b"}",
        '{"subject":"root"}'.encode("utf-16-be"),
        b'{"host": "h", "x": "\\ud800", "subject": "root"}',
    ],
    ids=lambda forged: str(forged[:40]),
)
def test_the_subject_of_a_claim_is_stamped_whatever_the_client_writes(
    served: Served, forged: bytes
) -> None:
    with served.voice(bearer(ORDERS)) as voice, served.voice(bearer(OPS)) as ops:
        asked = voice.new("orders/forged", payload=forged)
        voice.claim(asked)
        voice.renew(asked)
        page: Page = ops.call(Inspect(0, "orders/forged", exact=True))
        (entry,) = page.entries
        who = payload.read(entry.payload)
        assert (who.subject, who.address) == ("orders", "127.0.0.1")
        assert entry.payload.count(b"[") < 64  # a reader with a deep stack can read it too
        if b"host" in forged:
            assert (who.subject, who.host) == ("orders", "h")
            assert str(who).startswith("orders at 127.0.0.1: ")
        voice.call(messages.Resign(0, 2.0, [asked]))


def test_a_payload_that_is_too_large_with_its_subject_is_refused(served: Served) -> None:
    with served.voice(bearer(ORDERS)) as voice:
        full = b'{"x":"' + b"x" * (messages.LONGEST_PAYLOAD - 8) + b'"}'
        assert "too large" in why(voice.claim(voice.new("orders/full", payload=full)))


def test_the_record_of_a_break_says_which_subject_it_was(served: Served) -> None:
    with served.voice(bearer(ORDERS)) as voice, served.voice(bearer(OPS)) as ops:
        asked = voice.new("orders/broken")
        voice.claim(asked)
        gone: Gone = ops.call(Break(0, 2.0, [asked]))
        assert gone.results == [True]
        record = written(asked.id, 7, "it hangs")
        other = written("0" * 32, 7, "it hangs")
        assert "does not describe" in why(
            ops.call(messages.Record(0, 2.0, asked.name, asked.id, other))
        )
        assert "may not break" in why(
            voice.call(messages.Record(0, 2.0, asked.name, asked.id, record))
        )
        assert not why(ops.call(messages.Record(0, 2.0, asked.name, asked.id, record)))
        found: messages.Recorded = voice.call(messages.Records(0, 2.0, asked.name))
        said = read_record(found.records[0])
        assert said is not None
        assert said.by.startswith("ops at 127.0.0.1: ")
        assert said.reason == "it hangs"
    with served.voice(bearer(NOTHING)) as stranger:
        refused = stranger.call(messages.Records(0, 2.0, asked.name))
        assert "may not inspect" in why(refused)


def test_our_own_client_works_without_inspect_and_says_what_is_denied(
    served: Served, redis: Redis
) -> None:
    at = f"127.0.0.1:{served.port}"
    with (
        lockfast.connect(f"lockfast://:{ORDERS}@{at}") as client,
        lockfast.connect(f"lockfast://:{ORDERS}@{at}") as other,
        lockfast.connect(redis.url) as direct,
    ):
        with pytest.raises(EngineRefused, match="'orders' may not claim the lock 'x'"):
            client.lock("x").acquire(timeout=1.0)
        with client.lock("shared/ours", purpose="nightly"):
            (holder,) = direct.inspect("shared/ours")
            assert holder.who.subject == "orders"
            assert holder.who.purpose == "nightly"
            with pytest.raises(lockfast.NotAcquired) as busy:
                other.lock("shared/ours").acquire(timeout=0.5)
            assert "nightly" not in str(busy.value)
            with pytest.raises(EngineRefused, match="may not inspect"):
                other.inspect("shared/")
        with other.lock("shared/ours", timeout=SOON):
            pass


def test_rights_that_are_taken_away_are_gone_at_once(redis: Redis, tmp_path: Path) -> None:
    with (
        Served(tmp_path, redis.url, CONFIG) as served,
        served.voice(bearer(ORDERS)) as voice,
        served.voice(bearer(OPS)) as ops,
    ):
        asked = voice.new("orders/taken")
        assert voice.claim(asked).results[0] is not None
        served.reload(CONFIG.replace('claim = ["orders/", "shared"]', 'claim = ["shared"]'))
        assert "may not claim" in why(voice.renew(asked))  # so that its lease ends
        assert "may not claim" in why(voice.claim(voice.new("orders/more")))
        gone: Gone = voice.call(messages.Resign(0, 2.0, [asked]))  # giving back is always allowed
        assert gone.results == [True]
        assert not why(ops.call(Inspect(0, "")))
        # A configuration that is wrong changes nothing.
        served.reload(CONFIG.replace("inspect = [", "inspects = ["), "the old one stays")
        assert "may not claim" in why(voice.claim(voice.new("orders/more")))
        # Nor does one of which only the beginning is written yet: it would give more rights.
        for beginning, told in ((KEYS, "it has no [subjects]"), ("", "it lets everybody in")):
            served.reload(beginning, "the old one stays")
            assert told in served.program.stderr
            assert "may not claim" in why(voice.claim(voice.new("anything")))
            assert served.status() == 401
        # No rights at all, and no key.
        served.reload(f"[keys]\n{stored('ops', OPS)}\n[subjects]\n")
        with pytest.raises(ConnectionClosed) as closed:
            voice.socket.recv(SOON)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1008
        assert "may not inspect" in why(ops.call(Inspect(0, "")))


def test_our_client_loses_a_lock_that_it_may_not_claim_any_more(
    redis: Redis, tmp_path: Path
) -> None:
    with Served(tmp_path, redis.url, CONFIG) as served:
        url = f"lockfast://:{ORDERS}@127.0.0.1:{served.port}"
        with lockfast.connect(url) as client, lockfast.connect(url) as kept:
            lease = client.lock("orders/gone", ttl=1.0).acquire()
            other = kept.lock("shared/stays", ttl=1.0).acquire()
            served.reload(CONFIG.replace('claim = ["orders/", "shared"]', 'claim = ["shared"]'))
            time.sleep(2.0)
            with pytest.raises(lockfast.LeaseLost):
                lease.ensure_held()
            other.ensure_held()


@in_loop
async def test_rights_that_change_during_a_handshake_hold_after_it() -> None:
    served = App(Replica(Held().made, Aio()), Admission(Keys(tomllib.loads(stored("a", ORDERS)))))
    sent: list[Message] = []

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    async def send(message: Message) -> None:
        sent.append(message)
        if message["type"] == "websocket.accept":
            served.admit(Admission(Keys(tomllib.loads(stored("b", OPS)))))

    headers = [(b"host", b"x"), (b"authorization", f"Bearer {ORDERS}".encode())]
    scope = {"type": "websocket", "path": "/v1/connect", "headers": headers}
    await served(scope, receive, send)
    assert sent[1:] == [{"type": "websocket.close", "code": 1008}]
    assert not served.replica.connections


@in_loop
async def test_two_connections_at_the_same_moment_do_not_pass_the_limit() -> None:
    replica = Replica(Held().made, Aio())
    usage = Usage("a", Limits(max_connections=1), lambda: 0.0)
    one, two = (replica.connect(lambda: None, Caller("a", None, usage)) for _ in range(2))
    assert (one.ended, two.ended) == (False, True)
    assert usage.connections == 1
    one.end()
    assert usage.connections == 0
    await replica.close()


def test_without_subjects_a_key_may_do_everything(redis: Redis, tmp_path: Path) -> None:
    with Served(tmp_path, redis.url, KEYS) as served, served.voice(bearer(NOTHING)) as voice:
        for verb in ("claim", "inspect", "break"):
            assert not why(done(voice, verb, "x"))
        asked = voice.new("x", payload=b'{"subject": "root"}')
        voice.claim(asked)
        page: Page = voice.call(Inspect(0, "x", exact=True))
        assert payload.read(page.entries[0].payload).subject == "nothing"


def limited(**limits: object) -> str:
    text = "\n".join(f"{name} = {value}" for name, value in limits.items())
    return CONFIG.replace("[subjects.orders]", f"[subjects.orders]\n{text}")


def test_a_ttl_and_the_number_of_claims_are_limited(redis: Redis, tmp_path: Path) -> None:
    config = limited(max_ttl=10, max_claims=3, max_waiters=1)
    with (
        Served(tmp_path, redis.url, config) as served,
        served.voice(bearer(ORDERS)) as one,
        served.voice(bearer(ORDERS)) as two,
    ):
        assert "a ttl of 10 s, and asked for 10.5 s" in why(one.claim(one.new("orders/l1", 10.5)))
        held = one.new("orders/l1", 10.0)
        assert one.claim(held).results[0] is not None
        held.ttl = 60.0
        assert "max_ttl" in why(one.renew(held))
        waiting = two.new("orders/l1", 1.0)
        assert not why(two.claim(waiting))
        assert not why(two.claim(waiting))  # a copy counts once
        refused = why(two.claim(two.new("orders/l1", 1.0)))
        assert "limited to 1 waiters" in refused
        assert "max_waiters" in refused
        try_ = two.new("orders/l1", 1.0, queue=False)
        assert not why(two.claim(try_))  # it does not wait, and is not kept
        last = two.new("orders/l2", 10.0, queue=False)
        assert not why(two.claim(last))
        assert "max_claims" in why(one.claim(one.new("orders/l3", 10.0, queue=False)))
        # One that was released, or that has expired, makes room.
        two.call(messages.Resign(0, 2.0, [last]))
        again = one.new("orders/l3", 10.0, queue=False)
        assert not why(one.claim(again))
        assert "max_claims" in why(one.claim(one.new("orders/l4", 10.0, queue=False)))
        until = time.monotonic() + SOON
        while why(one.claim(one.new("orders/l5", 10.0, queue=False))):
            assert time.monotonic() < until
            time.sleep(0.2)


@in_loop
async def test_a_renewal_with_a_short_ttl_makes_no_room() -> None:
    """On some engines a renewal does not shorten a lease, whatever ttl it has."""
    at = 0.0
    usage = Usage("a", Limits(max_claims=1), lambda: at)
    caller = Caller("a", Rights("a", {"claim": ("",)}), usage)
    watch = Watch(lambda: at, Figures(lambda: 0))
    asked = messages.Asked("0" * 32, "x", 60.0, not_after=1.0)
    held = Standing(5, granted=True, left=60.0)
    watch.claim(caller, ask_of(asked, 1), new=True)
    watch.stood(caller, asked, held, new=True)
    asked.ttl = 0.05
    watch.stood(caller, asked, held, new=False)
    at = 59.0
    watch._sweep()
    assert usage.claims == 1
    at = 61.0
    watch._sweep()
    assert usage.claims == 0
    watch.close()


@in_loop
async def test_a_copy_that_would_wait_does_not_pass_the_limit_of_waiters() -> None:
    """The first copy does not wait, so it is not limited, and the engine has not answered yet."""
    usage = Usage("a", Limits(max_waiters=0), lambda: 0.0)
    caller = Caller("a", Rights("a", {"claim": ("",)}), usage)
    watch = Watch(lambda: 0.0, Figures(lambda: 0))
    asked = messages.Asked("0" * 32, "x", 60.0, queue=False, not_after=1.0)
    watch.claim(caller, ask_of(asked, 1), new=True)
    asked.queue = True
    copy = ask_of(asked, 1)
    watch.claim(caller, copy, new=True)
    assert not copy.queue
    watch.close()


def test_without_a_right_to_claim_nothing_is_stored(served: Served, redis: Redis) -> None:
    """A resignation in doubt leaves a tombstone, and a client can make up what it resigns."""
    for key, stored_there in ((NOTHING, False), (ORDERS, True)):
        with served.voice(bearer(key)) as voice:
            voice.claim(voice.new("orders/time"))  # to learn it
            asked = voice.new("orders/tomb")
            asked.not_after = (voice.now or 0.0) + 60.0
            assert isinstance(voice.call(messages.Resign(0, 2.0, [asked], doubt=True)), Gone)
            found = redis.command("KEYS", f"*{asked.id}*")
            assert bool(found) == stored_there


def test_connections_are_limited(redis: Redis, tmp_path: Path) -> None:
    with Served(tmp_path, redis.url, limited(max_connections=2)) as served:
        with served.voice(bearer(ORDERS)), served.voice(bearer(ORDERS)):
            assert served.status(bearer(ORDERS)) == 429
            assert served.status(bearer(OPS)) == 101
            url = f"lockfast://:{ORDERS}@127.0.0.1:{served.port}"
            with (
                lockfast.connect(url) as client,
                pytest.raises(lockfast.EngineUnavailable, match="too many connections"),
            ):
                client.lock("orders/c").acquire(timeout=1.0)
        until = time.monotonic() + SOON
        while served.status(bearer(ORDERS)) != 101:
            assert time.monotonic() < until


def test_requests_are_limited_and_renewals_have_room_of_their_own(
    redis: Redis, tmp_path: Path
) -> None:
    with (
        Served(tmp_path, redis.url, limited(max_requests=5)) as served,
        served.voice(bearer(ORDERS)) as voice,
        served.voice(bearer(OPS)) as other,
    ):
        asked = voice.new("orders/r")
        voice.claim(asked)
        replies = [voice.call(Inspect(0, "orders/")) for _ in range(20)]
        failed = [each for each in replies if isinstance(each, Failed)]
        assert 10 <= len(failed) < 20
        fault = failed[0].fault
        assert (fault.kind, fault.sent) == ("unavailable", False)  # so a client tries again
        assert "5 requests in a second (max_requests)" in fault.why
        assert 0.0 < fault.after <= 1.0
        assert not why(voice.renew(asked))
        assert not [each for _ in range(20) if (each := why(other.call(Inspect(0, ""))))]
        time.sleep(fault.after + 0.2)
        assert not why(voice.call(Inspect(0, "orders/")))
        # Our own client waits, and gets what it wants.
        with lockfast.connect(f"lockfast://:{ORDERS}@127.0.0.1:{served.port}") as client:
            for _ in range(7):
                with client.lock("orders/patient", timeout=SOON):
                    pass


def test_bytes_are_limited(redis: Redis, tmp_path: Path) -> None:
    with (
        Served(tmp_path, redis.url, limited(max_bytes=2000)) as served,
        served.voice(bearer(ORDERS)) as voice,
    ):
        large = [voice.new(f"orders/{n}", payload=b"x" * 1_000) for n in range(4)]
        assert [why(voice.claim(each)) for each in large][-1].endswith(" s")
        assert "max_bytes" in why(voice.claim(large[0]))
