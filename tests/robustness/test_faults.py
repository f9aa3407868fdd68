"""Faults, plans and the player, on a site of one Redis with clients that only ask."""

import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

import pytest

from tests.robustness.faults import FAULTS, Damage, Fault, Stage, breaks
from tests.robustness.faults.fault import Order
from tests.robustness.history import Kind, Outcome, Record
from tests.robustness.hosts import Host, host_of
from tests.robustness.plan import Act, Plan, Step, draw
from tests.robustness.player import Player
from tests.robustness.sites import SITES, RedisSite, Site
from tests.servers import Connection, Server, ServerClock, wait_until

_ASKER = """
import signal, socket, sys, time
signal.signal(signal.SIGUSR1, lambda *_: None)
host, port = sys.argv[1].rsplit(":", 1)
while True:
    try:
        with socket.create_connection((host, int(port)), 0.2) as line:
            line.settimeout(0.2)
            while True:
                line.sendall(b"INCR asked\\r\\n")
                if not line.recv(64):
                    break
                print("+", end="", flush=True)
                time.sleep(0.01)
    except OSError:
        time.sleep(0.01)
"""


class Asker(Server):
    """A client that asks for ever, and writes a sign for every answer."""

    def __init__(self, address: str, home: Host) -> None:
        super().__init__("asker", env=ServerClock().env, home=home)
        self._address = address

    def argv(self) -> list[str]:
        return [sys.executable, "-c", _ASKER, self._address]

    def is_ready(self) -> bool:
        return self.answers > 0

    @property
    def answers(self) -> int:
        return self.log_path.stat().st_size if self.log_path.exists() else 0


@pytest.fixture(scope="module")
def site() -> Iterator[RedisSite]:
    with RedisSite() as started:
        yield started


@pytest.fixture(scope="module")
def asker(site: RedisSite) -> Iterator[Asker]:
    with Asker(site.proxies[0].address, site.client_host(0)) as started:
        yield started


@pytest.fixture
def stage(site: RedisSite, asker: Asker) -> Iterator[Stage]:
    asker.launch()
    _served(asker)
    yield Stage(site, [asker], ttl=0.5)
    site.heal()


def _served(asker: Asker) -> None:
    before = asker.answers
    wait_until(lambda: asker.answers > before, "the client is served", 30.0)


def _unserved(asker: Asker) -> None:
    """Wait until a while has passed without an answer."""
    seen = [asker.answers]

    def quiet() -> bool:
        seen.append(asker.answers)
        return len(seen) > 20 and len(set(seen[-20:])) == 1

    wait_until(quiet, "the client is not served", 30.0)


_SEVERING = [
    ("pause-client", 0),
    ("pause-server", 0),
    ("kill-client", 0),
    ("kill-server", 0),
    ("restart-empty", 0),
    ("cut-leader", 0),
    *(("cut-client", turn) for turn in range(2)),
    *(("cut-one-way", turn) for turn in range(4)),
]


@pytest.mark.parametrize(("kind", "turn"), _SEVERING)
def test_a_fault_keeps_the_client_from_its_server_until_it_is_undone(
    stage: Stage, asker: Asker, kind: str, turn: int
) -> None:
    damage = FAULTS[kind].begin(stage, Order(0.5, turn))
    _unserved(asker)
    damage.undo()
    _served(asker)


def test_a_loss_of_packets_slows_and_does_not_sever(stage: Stage, asker: Asker) -> None:
    damage = FAULTS["loss"].begin(stage, Order(0.5, 0))
    _served(asker)
    damage.undo()


@pytest.mark.parametrize("kind", ["nat-forgets", "idle-died"])
def test_connections_that_were_forgotten_are_dead_and_new_ones_are_served(
    stage: Stage, site: RedisSite, asker: Asker, kind: str
) -> None:
    seen = site.proxies[0].connections
    damage = FAULTS[kind].begin(stage, Order(0.5))
    assert damage.said.startswith("forgot 1 connections")
    wait_until(lambda: site.proxies[0].connections > seen, "the client connects again", 30.0)
    _served(asker)
    damage.undo()
    _served(asker)


def test_a_storm_of_signals_ends_with_its_undoing(stage: Stage, asker: Asker) -> None:
    damage = FAULTS["signal-storm"].begin(stage, Order(0.5))
    _served(asker)
    damage.undo()
    assert asker.alive
    _served(asker)


def test_a_clock_that_stepped_ahead_stays_ahead(stage: Stage, site: RedisSite) -> None:
    before = ServerClock.of(site.redis).offset
    FAULTS["clock-ahead"].begin(stage, Order(0.5, 2)).undo()
    assert ServerClock.of(site.redis).offset == before + 60.0


def test_a_lost_reply_is_that_of_a_request_that_was_carried_out(
    stage: Stage, site: RedisSite, asker: Asker
) -> None:
    proxy = site.proxies[0]
    asker.stop()
    wait_until(lambda: proxy.open_connections == 0, "the last request is answered")
    site.redis.command("SET", "asked", 0)
    answered = asker.answers
    seen = proxy.connections
    with Connection(proxy.host, proxy.port) as idle:
        assert idle.command("PING") == b"PONG"
        FAULTS["lose-reply"].begin(stage, Order(0.5, 2))
    asker.launch()
    wait_until(lambda: proxy.connections > seen + 9, "each took its connection along", 30.0)
    asker.stop()
    asked = site.redis.command("GET", "asked")
    assert isinstance(asked, bytes)
    assert int(asked) - (asker.answers - answered) >= 8
    asker.launch()


def test_a_request_is_carried_out_after_its_sender_died(
    stage: Stage, site: RedisSite, asker: Asker
) -> None:
    damage = FAULTS["late-request"].begin(stage, Order(0.5))
    assert not asker.alive
    before = site.redis.command("GET", "asked")
    assert isinstance(before, bytes)
    wait_until(lambda: site.proxies[0].held == 1, "it is held though its sender died")
    site.proxies[0].release_requests()
    assert site.redis.command("GET", "asked") == b"%d" % (int(before) + 1)
    damage.undo()
    _served(asker)


def test_the_clock_of_a_client_jumps_and_jumps_back(stage: Stage, asker: Asker) -> None:
    damage = FAULTS["clock-client"].begin(stage, Order(0.5))
    assert ServerClock.of(asker).offset == 3600.0
    damage.undo()
    assert ServerClock.of(asker).offset == 0.0


@pytest.mark.parametrize("seed", range(20))
def test_no_data_is_lost_once_a_clock_has_moved(seed: int) -> None:
    plan = draw(seed, RedisSite, ttl=0.5, each=5)
    kinds = [{act.kind for act in step.acts} for step in plan.steps]
    first = min(place for place, each in enumerate(kinds) if each & {"clock-ahead", "clock-server"})
    assert not any("data" in breaks(kind, RedisSite) for each in kinds[first:] for kind in each)


def test_a_delay_ends_with_its_undoing(stage: Stage, site: RedisSite, asker: Asker) -> None:
    damage = FAULTS["delay"].begin(replace(stage, ttl=4.0), Order(0.5, 2))
    _unserved(asker)
    damage.undo()
    site.proxies[0].reset()
    _served(asker)


def test_a_server_that_was_killed_without_persistence_has_lost_its_data(
    stage: Stage, site: RedisSite
) -> None:
    site.redis.command("SET", "kept", 1)
    FAULTS["kill-server"].begin(stage, Order(0.5)).undo()
    assert site.redis.command("GET", "kept") is None
    assert "data" in breaks("kill-server", site)


def test_a_pause_can_be_undone_after_the_server_was_killed(stage: Stage, site: RedisSite) -> None:
    paused = FAULTS["pause-server"].begin(stage, Order(0.5))
    killed = FAULTS["kill-server"].begin(stage, Order(0.5))
    paused.undo()
    killed.undo()
    assert site.redis.command("PING") == b"PONG"


def test_healing_undoes_whatever_was_done(stage: Stage, site: RedisSite, asker: Asker) -> None:
    for kind in ("cut-leader", "cut-client", "kill-server"):
        FAULTS[kind].begin(stage, Order(0.5))
    site.heal()
    _served(asker)


def test_a_site_names_only_faults_that_there_are() -> None:
    for site in SITES.values():
        assert set(site.kinds) | site.loses <= set(FAULTS)


def test_the_same_seed_draws_the_same_plan_and_another_seed_another() -> None:
    plan = draw(7, RedisSite, ttl=0.5, each=5)
    assert draw(7, RedisSite, ttl=0.5, each=5) == plan
    assert str(draw(7, RedisSite, ttl=0.5, each=5)) == str(plan)
    assert draw(8, RedisSite, ttl=0.5, each=5) != plan


@pytest.mark.parametrize("site", SITES.values(), ids=list(SITES))
def test_a_plan_has_enough_of_each_kind_singly_and_in_pairs(site: type[Site]) -> None:
    plan = draw(1, site, ttl=0.5, each=5)
    assert set(plan.counts()) == set(site.kinds)
    assert min(plan.counts().values()) >= 5
    assert 0 < plan.pairs < len(plan.steps)


def test_a_plan_goes_on_until_its_time_is_full() -> None:
    assert 100.0 < draw(1, RedisSite, ttl=0.5, seconds=100.0).seconds < 110.0


def test_pauses_are_shorter_than_the_ttl_about_as_long_and_far_longer() -> None:
    plan = draw(3, RedisSite, ttl=2.0, each=3, kinds=["pause-client"])
    lengths = sorted(act.seconds for step in plan.steps for act in step.acts)
    assert lengths[0] < 1.5 < lengths[1] < 2.7
    assert lengths[2] > 3.5


@pytest.mark.parametrize("seed", range(20))
def test_a_pair_overlaps_and_is_of_two_kinds_that_go_together(seed: int) -> None:
    restarts = {"kill-server", "restart-empty", "stale-failover"}
    for step in draw(seed, RedisSite, ttl=0.5, each=5).steps:
        if len(step.acts) == 2:
            one, other = step.acts
            assert one.kind != other.kind
            assert not {one.kind, other.kind} <= restarts
            assert other.after < one.seconds


def test_a_plan_can_have_no_pairs() -> None:
    plan = draw(1, RedisSite, ttl=0.5, each=5, paired=0.0)
    assert plan.pairs == 0


@pytest.mark.parametrize("seed", range(20))
def test_one_replica_is_always_left(seed: int) -> None:
    deaths = {"kill-replica", "drain-replica", "rolling-restart", "late-request"}
    for step in draw(seed, SITES["service-redis"], ttl=0.5, each=5).steps:
        assert sum(act.kind in deaths for act in step.acts) < 2


def test_the_player_records_what_was_done_and_when(stage: Stage, asker: Asker) -> None:
    acts = (Act("cut-client", 0.2, 0.0, 0, 1), Act("pause-server", 0.2, 0.1, 0, 2))
    records: list[Record] = []
    player = Player(stage, records.append)
    player.play(Plan(1, 0.5, (Step(0.0, acts), Step(0.5, (replace(acts[0], seed=3),)))))
    _served(asker)
    assert player.counts == {"cut-client": 2, "pause-server": 1}
    assert [record.kind for record in records] == [Kind.FAULT] * 3
    first, second, third = sorted(records, key=lambda record: record.began)
    assert [first.name, second.name, third.name] == ["cut-client", "pause-server", "cut-client"]
    assert max(first.ended, second.ended) <= third.began
    assert "paused redis" in second.value
    assert all(record.outcome is Outcome.OK for record in records)


class Meeting(Fault):
    """A fault that begins only when another begins too."""

    kind = "meeting"
    both: ClassVar[threading.Barrier] = threading.Barrier(2, timeout=60.0)

    def begin(self, stage: Stage, order: Order) -> Damage:
        del stage, order
        self.both.wait()
        return Damage("met", lambda: None)


def test_the_two_faults_of_a_pair_are_in_force_at_once(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(FAULTS, "meeting", Meeting())
    player = Player(stage, lambda _record: None)
    act = Act("meeting", 0.0, 0.0, 0, 1)
    player.play(Plan(1, 0.5, (Step(0.0, (act, act)),)))
    assert player.counts == {"meeting": 2}


def test_a_fault_that_cannot_be_done_is_recorded_as_not_done(stage: Stage, asker: Asker) -> None:
    records: list[Record] = []
    asker.kill()
    player = Player(stage, records.append, patience=0.0)
    player.play(Plan(1, 0.5, (Step(0.0, (Act("pause-client", 0.2, 0.0, 0, 1),)),)))
    asker.launch()
    assert [record.outcome for record in records] == [Outcome.NO]
    assert player.counts == {}


def test_a_plan_that_is_stopped_leaves_nothing_damaged(stage: Stage, asker: Asker) -> None:
    player = Player(stage, lambda _record: player.stop())
    player.play(draw(1, stage.site, ttl=0.5, kinds=["cut-leader"], each=100))
    assert player.counts == {"cut-leader": 1}
    assert all(host.whole for host in stage.site.network.hosts)
    assert host_of(asker).whole
    _served(asker)
