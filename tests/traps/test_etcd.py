"""Traps 24, 28, 35, 43 and 47 on etcd, and what sessions make of a claim that nobody renews."""

from __future__ import annotations

import base64
import secrets
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import grpc
import pytest

import lockfast
from lockfast import EngineRefused
from lockfast.core.validity import State
from lockfast.engines import opener
from lockfast.engines.etcd.engine import EtcdEngine
from lockfast.engines.etcd.messages import GRANT, KEEP, REVOKE, TXN, term
from lockfast.engines.etcd.protobuf import number, numbers
from lockfast.errors import EngineUnavailable
from lockfast.port import LONGEST_WAIT, Ask, Shape, Standing
from lockfast.runtime.base import now
from lockfast.runtime.drive import drive
from lockfast.runtime.threads import Threads
from lockfast.url import parse
from tests.robustness.hosts import Network, host_of
from tests.servers import Etcd, EtcdCluster, wait_until
from tests.servers.etcd import encoded
from tests.traps.waiting import in_background

SOON = 5.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[EtcdCluster]:
    with EtcdCluster() as cluster:
        yield cluster


@pytest.fixture
def node(cluster: EtcdCluster) -> Etcd:
    cluster.wipe()
    return cluster.nodes[0]


class Port:
    """An engine that is asked directly."""

    def __init__(self, url: str) -> None:
        engine = opener(parse(url), Threads())()
        assert isinstance(engine, EtcdEngine)
        self.engine = engine
        self._prefix = secrets.token_hex(11)
        self._numbers = count()

    def ask(self, name: str = "x", ttl: float = 5.0, *, queue: bool = True) -> Ask:
        shape = Shape(name, ttl)
        ident = f"{self._prefix}{next(self._numbers):010x}"
        return Ask(ident, shape, queue, now() + shape.wait_ttl, b"")

    def claim(self, ask: Ask) -> Standing:
        standing = drive(self.engine.claim(ask, now() + SOON))
        assert standing is not None
        return standing

    def renew(self, ask: Ask) -> Standing | Exception | None:
        return drive(self.engine.renew([ask], now() + SOON))[0]

    def resign(self, ask: Ask, *, doubt: bool = False) -> bool:
        (removed,) = drive(self.engine.resign([ask], now() + SOON, doubt=doubt))
        assert isinstance(removed, bool)
        return removed

    def close(self) -> None:
        drive(self.engine.close())


@pytest.fixture
def port(cluster: EtcdCluster, node: Etcd) -> Iterator[Port]:
    del node  # it has wiped the cluster
    port = Port(cluster.url)
    yield port
    port.close()


def claims(node: Etcd) -> list[dict[str, str]]:
    """Give the claims as etcd itself has them."""
    found = node.post(
        "kv/range", key=encoded("lockfast/claim/"), range_end=encoded("lockfast/claim0")
    )
    listed: list[dict[str, str]] = found.get("kvs", [])
    return listed


def test_24_a_token_does_not_begin_anew_when_the_claim_is_deleted(cluster: EtcdCluster) -> None:
    tokens = []
    for _ in range(3):
        with lockfast.connect(cluster.url) as client, client.lock("x", ttl=5) as lease:
            tokens.append(lease.token)
        cluster.wipe()
    assert tokens == sorted(set(tokens))


def test_28_a_token_is_the_revision_of_the_claims_creation_and_of_nothing_else(
    cluster: EtcdCluster, node: Etcd
) -> None:
    with lockfast.connect(cluster.url) as client, lockfast.connect(cluster.url) as other:
        first = client.lock("x", ttl=30.0).acquire()
        (stored,) = claims(node)
        assert first.token == int(stored["create_revision"])
        waiting = in_background(lambda: other.lock("x", ttl=30.0).acquire(timeout=10))
        wait_until(lambda: len(claims(node)) == 2, "one waits")
        for _ in range(5):  # the store goes on, and the waiter's token does not
            client.lock("elsewhere", ttl=30.0).acquire().release()
        first.release()
        second = waiting.result(SOON)
        wait_until(lambda: claims(node)[0]["version"] == "2", "it moves to the lease of its ttl")
        (stored,) = claims(node)
        assert second.token == int(stored["create_revision"])
        assert int(stored["mod_revision"]) > second.token > first.token
        second.release()


def take(client: lockfast.Client) -> None:
    client.lock("x 0", ttl=8.0).acquire(timeout=10).release()


def test_35_a_client_has_one_lease_however_many_locks_it_holds(
    cluster: EtcdCluster, node: Etcd
) -> None:
    before = len(node.leases())
    with lockfast.connect(cluster.url) as client:
        leases = [client.lock(f"x {number}", ttl=8.0).acquire() for number in range(30)]
        assert len(node.leases()) == before + 1
        for _ in range(50):
            client.lock("again", ttl=8.0).acquire().release()
        waiters = [in_background(lambda: take(client)) for _ in range(5)]
        wait_until(lambda: leases[0].waiters == 5, "five wait")
        assert len(node.leases()) == before + 1
        for lease in leases:
            lease.release()
        for waiter in waiters:
            waiter.result(SOON)
    assert len(node.leases()) == before  # given back, not left to expire


def test_43_a_claim_has_what_is_left_of_its_session_and_no_more(port: Port) -> None:
    port.claim(port.ask("warm", ttl=6.0))
    time.sleep(1.5)
    late = port.ask("late", ttl=6.0)
    assert port.claim(late).left < 4.6  # a put does not refresh the lease
    renewed = port.renew(late)
    assert isinstance(renewed, Standing)
    assert 5.5 < renewed.left <= 6.0


def test_43_the_time_of_a_session_begins_when_its_keepalive_is_sent(port: Port) -> None:
    first = port.ask("first", ttl=6.0)
    port.claim(first)
    time.sleep(1.1)  # longer than what a renewal takes for fresh
    wire = port.engine._transport
    call = wire.call

    async def slow(
        method: str, request: bytes, deadline: float, *, harmless: bool = False
    ) -> bytes:
        reply = await call(method, request, deadline, harmless=harmless)
        if method == KEEP:
            time.sleep(0.5)  # noqa: ASYNC251  # the reply is on its way
        return reply

    wire.call = slow  # type: ignore[method-assign]  # the network of this test
    port.renew(first)
    assert port.claim(port.ask("second", ttl=6.0)).left <= 5.5


def delaying(port: Port) -> list[bytes]:
    """Be the network that keeps the next transaction, for `deliver`."""
    wire = port.engine._transport
    held: list[bytes] = []
    call = wire.call

    async def swallow(
        method: str, request: bytes, deadline: float, *, harmless: bool = False
    ) -> bytes:
        if method == TXN and not held:
            held.append(request)  # the network keeps it, and will deliver it
            raise EngineUnavailable("no answer", sent=True)
        return await call(method, request, deadline, harmless=harmless)

    wire.call = swallow  # type: ignore[method-assign]  # the network of this test
    return held


def deliver(cluster: EtcdCluster, request: bytes) -> None:
    """Be the network that delivers a transaction late."""
    with grpc.insecure_channel(cluster.nodes[1].address) as channel:
        call: Any = channel.unary_unary(TXN, None, None)
        call(request, timeout=SOON)


def test_47_a_copy_that_arrives_after_a_resignation_in_doubt_does_nothing(
    cluster: EtcdCluster, node: Etcd, port: Port
) -> None:
    port.claim(port.ask("warm"))
    held = delaying(port)
    ask = port.ask("x")
    with pytest.raises(EngineUnavailable):
        port.claim(ask)
    assert port.resign(ask, doubt=True) is False
    deliver(cluster, held[0])
    assert len(claims(node)) == 1  # the warm one alone
    assert port.claim(port.ask("x")).granted
    # And the session goes on: its gate has moved, and was learned.
    assert port.claim(port.ask("y")).granted


def test_47_and_without_the_resignation_that_copy_is_the_claim(
    cluster: EtcdCluster, node: Etcd, port: Port
) -> None:
    # The test above would show nothing if etcd took no such copy from anybody.
    port.claim(port.ask("warm"))
    sent: list[bytes] = []
    call = port.engine._transport.call

    async def note(
        method: str, request: bytes, deadline: float, *, harmless: bool = False
    ) -> bytes:
        sent.append(request)
        return await call(method, request, deadline, harmless=harmless)

    port.engine._transport.call = note  # type: ignore[method-assign]  # see above
    ask = port.ask("x")
    port.claim(ask)
    assert port.resign(ask)
    deliver(cluster, sent[0])
    assert len(claims(node)) == 2


def test_a_claim_that_nobody_renews_ends_though_its_session_goes_on(
    cluster: EtcdCluster, node: Etcd
) -> None:
    with lockfast.connect(cluster.url) as client, lockfast.connect(cluster.url) as other:
        kept = client.lock("kept", ttl=1.5).acquire()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            client.lock("dropped", ttl=1.5).acquire()  # and nobody has the lease
            began = time.monotonic()
            other.lock("dropped", ttl=1.5).acquire(timeout=SOON).release()
        assert 1.0 < time.monotonic() - began < 3.0
        assert kept.state is State.HELD
        assert len(claims(node)) == 1
        kept.release()


def test_a_ttl_below_a_second_is_kept_by_the_client_and_rounded_up_by_etcd(
    cluster: EtcdCluster, node: Etcd
) -> None:
    with lockfast.connect(cluster.url) as client:
        lease = client.lock("x", ttl=0.4).acquire()
        assert lease.remaining <= 0.4
        (stored,) = claims(node)
        left = node.post("lease/timetolive", ID=stored["lease"])
        assert left["grantedTTL"] == "1"
        lease.release()


def test_a_client_with_a_lower_token_base_is_refused() -> None:
    base = 2_000_000_000_000_000
    with EtcdCluster(1) as cluster:
        with lockfast.connect(cluster.url) as early:
            old = early.lock("x", ttl=5).acquire()
            with lockfast.connect(f"{cluster.url}?token_base={base}") as client:
                new = client.lock("y", ttl=5).acquire()
                assert new.token > base > old.token
                # Also one that was there before.
                with pytest.raises(EngineRefused, match=f"token_base={base}"):
                    early.lock("z", ttl=5).acquire(timeout=1)
                new.release()
            old.release()
        with (
            lockfast.connect(cluster.url) as late,
            pytest.raises(EngineRefused, match=f"token_base={base}"),
        ):
            late.lock("x").acquire(timeout=1)


def test_a_leader_that_was_replaced_extends_no_lease() -> None:
    """It stood still while the others elected another, and does not know yet: it answers a
    keepalive of which its successor never hears.
    """
    terms: list[int] = []
    with Network() as network, EtcdCluster(homes=[network.host() for _ in range(3)]) as cluster:
        old = cluster.leader()
        port = Port(f"etcd://{old.address}")  # a client on its side of the network
        call = port.engine._transport.call

        async def note(
            method: str, request: bytes, deadline: float, *, harmless: bool = False
        ) -> bytes:
            reply = await call(method, request, deadline, harmless=harmless)
            if method == KEEP:
                terms.append(term(reply))
                join()
            return reply

        ask = port.ask("x", ttl=6.0)
        port.claim(ask)
        (kept,) = old.leases()
        join = host_of(old).cut(*[host_of(node) for node in cluster.nodes if node is not old])
        old.pause()
        successor = cluster.leader()
        time.sleep(2.5)
        elected = int(successor.post("maintenance/status")["header"]["raft_term"])
        port.engine._transport.call = note  # type: ignore[method-assign]  # the network of this test
        began = now()
        renewal = in_background(lambda: port.renew(ask))
        time.sleep(0.1)  # it is asked
        old.resume()
        said = renewal.result(10)
        old.pause()
        leader = cluster.leader()
        left = int(leader.post("lease/timetolive", ID=kept).get("TTL", 0))
        assert terms[0] < elected  # the one that was replaced has answered
        assert isinstance(said, Standing | EngineUnavailable)
        if isinstance(said, Standing):
            assert began + said.left < now() + left + 1  # whole seconds, rounded down
        old.resume()
        port.close()


def test_more_claims_and_sessions_are_ended_than_a_transaction_has_room_for(port: Port) -> None:
    """etcd takes 128 operations. One claim in doubt moves the gates of all sessions."""
    # Long ones: a session that is due is renewed first, and that reply would be the one lost.
    asks = [port.ask(f"x {ttl}", ttl=float(ttl)) for ttl in range(60, 195)]
    for ask in asks:
        port.claim(ask)
    call = port.engine._transport.call

    async def unheard(
        method: str, request: bytes, deadline: float, *, harmless: bool = False
    ) -> bytes:
        await call(method, request, deadline, harmless=harmless)
        raise EngineUnavailable("the reply was lost", sent=True)

    port.engine._transport.call = unheard  # type: ignore[method-assign]  # the network of this test
    doubted = port.ask("doubted", ttl=60.0)
    with pytest.raises(EngineUnavailable):
        port.claim(doubted)
    port.engine._transport.call = call  # type: ignore[method-assign]  # see above
    removed = drive(port.engine.resign([*asks, doubted], now() + SOON, doubt=True))
    assert removed == [True] * (len(asks) + 1)
    assert port.claim(port.ask("x 60", ttl=60.0)).granted  # the gates were learned


def test_a_claim_that_cannot_be_ended_keeps_no_other_from_being_renewed(port: Port) -> None:
    kept, over = port.ask("kept", ttl=5.0), port.ask("over", ttl=0.2)
    port.claim(kept)
    port.claim(over)
    call = port.engine._transport.call
    tried: list[float] = []

    async def refuse(
        method: str, request: bytes, deadline: float, *, harmless: bool = False
    ) -> bytes:
        if b"lockfast/claim/over/" in request:
            tried.append(now())
            raise EngineRefused("no deletion today")
        return await call(method, request, deadline, harmless=harmless)

    port.engine._transport.call = refuse  # type: ignore[method-assign]  # the network of this test
    time.sleep(0.3)
    assert isinstance(port.renew(kept), Standing)
    assert len(tried) == 1
    assert port.claim(port.ask("new", ttl=5.0)).granted
    end = now() + 1.0
    while now() < end:
        drive(port.engine.listen(end))
    assert len(tried) < 10  # it is not tried all the time
    port.engine._transport.call = call  # type: ignore[method-assign]  # see above
    wait_until(lambda: bool(drive(port.engine.listen(now() + 0.2)) or ended(port)), "it is ended")


def ended(port: Port) -> bool:
    """Tell whether nothing of this client waits for its end."""
    return not port.engine._own._over


@pytest.mark.parametrize("where", ["own", "waits", "sessions", "login"])
def test_a_signal_handler_may_use_a_client_whatever_its_thread_is_doing(
    port: Port, where: str
) -> None:
    """It runs between any two steps of the thread that it interrupts, as a finalizer does: also
    inside of a lock that what it does will need.
    """
    engine: Any = port.engine
    locks = {
        "own": engine._own._lock,
        "waits": engine._listener._waits._lock,
        "sessions": engine._sessions._opening._lock,
        "login": engine._transport._greeting._lock,
    }

    def interrupted() -> None:
        with locks[where]:
            held, waiting = port.ask("x", ttl=5.0), port.ask("x", ttl=5.0)
            assert port.claim(held).granted
            assert not port.claim(waiting).granted
            port.renew(held)
            drive(engine._transport._greet(now() + SOON))
            engine._transport.rouse()
            assert port.resign(held)
            assert port.resign(waiting, doubt=True)

    assert finishes(interrupted)


def finishes(work: Callable[[], object]) -> bool:
    """Tell whether it comes to its end soon; a thread that hangs is left behind."""
    ended: list[bool] = []

    def run() -> None:
        work()
        ended.append(True)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(SOON)
    return bool(ended)


def test_sessions_that_were_opened_inside_of_one_another_are_all_kept(port: Port) -> None:
    """A handler opened one while its thread did: claims are on both, and both gates must move."""
    engine: Any = port.engine
    call = engine._transport.call
    inner = port.ask("inner", ttl=5.0)

    async def interrupt(method: str, *args: Any, **kwargs: Any) -> bytes:  # noqa: ANN401  # as call
        engine._transport.call = call
        assert port.claim(inner).granted
        said: bytes = await call(method, *args, **kwargs)
        return said

    engine._transport.call = interrupt
    outer = port.ask("outer", ttl=5.0)
    assert finishes(lambda: port.claim(outer))
    sessions = {engine._own.get(each.id).session for each in (inner, outer)}
    assert set(engine._sessions) >= sessions


def test_47_a_copy_that_arrives_after_an_operators_break_does_not_stay(
    cluster: EtcdCluster, node: Etcd, port: Port
) -> None:
    """Who breaks a claim cannot move the gates of its client, and nobody resigns what is gone."""
    port.claim(port.ask("warm", ttl=2.0))
    held = delaying(port)
    ask = port.ask("x", ttl=2.0)
    with pytest.raises(EngineUnavailable):
        port.claim(ask)
    assert port.claim(ask).granted
    drive(port.engine._places.prune(now() + SOON))  # as the heart does
    operator = Port(cluster.url)
    assert operator.resign(ask, doubt=True)
    operator.close()
    assert port.renew(ask) is None
    deliver(cluster, held[0])
    assert any(ask.id in each for each in ids(node))

    def looked() -> bool:
        drive(port.engine.listen(now() + 0.1))
        return not any(ask.id in each for each in ids(node))

    wait_until(looked, "it is ended", SOON)


def ids(node: Etcd) -> list[str]:
    """Give the keys of the claims."""
    return [base64.b64decode(each["key"]).decode() for each in claims(node)]


def test_a_tombstone_outlives_every_copy_and_is_never_shortened(port: Port) -> None:
    ask = port.ask("x", ttl=0.5)
    began = now()
    port.resign(ask, doubt=True)
    until = port.engine._own.tombs[ask.id]
    assert until >= began + LONGEST_WAIT + 1.0
    late = Ask(ask.id, ask.shape, True, began - 60.0, b"")  # noqa: FBT003  # a claim's queue
    port.resign(late, doubt=True)
    assert port.engine._own.tombs[ask.id] >= until


def test_a_lease_that_expires_before_its_session_has_begun_is_no_refusal(port: Port) -> None:
    """A machine that stands still between two requests: whoever asks may try again."""
    wire: Any = port.engine._transport
    call = wire.call
    leases: list[int] = []

    async def late(method: str, request: bytes, deadline: float, **more: bool) -> bytes:
        if method == TXN:
            wire.call = call
            await call(REVOKE, number(1, leases[0]), deadline)
        said: bytes = await call(method, request, deadline, **more)
        if method == GRANT:
            leases.append(numbers(said)[2])
        return said

    wire.call = late
    ask = port.ask()
    with pytest.raises(EngineUnavailable, match="lease not found") as raised:
        port.claim(ask)
    assert not raised.value.sent
    assert port.claim(ask).granted
