"""The plan of a fleet: its arithmetic, its limits, and the constants that it is held to."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.against import ENGINES
from benchmarks.costs import Found, Span, solved, ways
from benchmarks.planning.command import main
from benchmarks.planning.costs import Cost, Costs, Way
from benchmarks.planning.limits import HEADROOM, RULES, Machine
from benchmarks.planning.model import Fleet, Needs, batch, interval, needs
from benchmarks.planning.stored import as_table, read, store

ROOT = Path(__file__).parents[2]
STORED = read()
SIZES = (10**4, 10**5, 10**6)
PLAIN: dict[str, Any] = {"connections": 2.0, "latency": 0.001, "peak": 1000.0}
FREE_OF_COST: dict[str, Any] = {f.name: Cost() for f in fields(Way) if f.name not in PLAIN}
NOTHING = Way(**PLAIN, **FREE_OF_COST)
FREE = Costs("redis", NOTHING, NOTHING, Cost(), Cost(), members=1, busiest=1.0)
"""An engine on which nothing costs anything."""
QUANTITIES = ("replica_cpu", "replica_memory", "engine_cpu", "engine_memory", "network", "disk")


def fleet(clients: int, engine: str = "redis", *, service: bool = True) -> Fleet:
    return Fleet(engine, clients, clients // 5, 30.0, clients / 200, service=service)


def costly(**more: Cost) -> Costs:
    """Return costs of which only these are not zero."""
    changed: dict[str, Any] = {**more}
    way = replace(NOTHING, **changed)
    return replace(FREE, service=way, direct=way)


def amounts(found: Needs) -> list[float]:
    return [getattr(found, name) for name in (*QUANTITIES, "client_network")]


# --- the arithmetic -----------------------------------------------------------------------------


def test_a_claim_is_renewed_as_often_as_its_client_renews_it() -> None:
    assert interval(30.0) == 10.0
    assert interval(300.0) == 96.0  # 100 rounded down to an eighth of a doubling
    assert interval(10.0) == 3.25


def test_a_replica_sends_one_call_in_each_window_until_it_is_full() -> None:
    assert batch(1.0, 30.0, service=True) == pytest.approx(1.1)
    assert batch(1000.0, 30.0, service=True) == pytest.approx(101.0)
    assert batch(100_000.0, 30.0, service=True) == 256.0
    assert batch(1000.0, 1.0, service=True) == 1.0  # such renewals are urgent
    assert batch(1000.0, 2.4, service=True) == pytest.approx(101.0)
    assert batch(1000.0, 2.0, service=True) == pytest.approx(1 + 1000 * 2.0 / 24)
    assert batch(0.1, 30.0, service=False) == pytest.approx(1.0, abs=0.01)


def test_renewals_cost_their_calls_and_themselves() -> None:
    costs = costly(renewal_call=Cost(engine_us=100.0), renewal=Cost(engine_us=3.0, replica_us=50.0))
    found = needs(Fleet("redis", 10_000, 10_000, 30.0, replicas=1, nodes=1), costs)
    scripts = 1000.0 / 101.0  # 1,000 renewals a second, 101 in each call
    assert found.calls == pytest.approx(scripts)
    assert found.engine_cpu == pytest.approx((1000 * 3.0 + scripts * 100.0) / 1e6)
    assert found.replica_cpu == pytest.approx(1000 * 50.0 / 1e6)
    direct = needs(Fleet("redis", 10_000, 10_000, 30.0, service=False, nodes=1), costs)
    assert direct.engine_cpu == pytest.approx(1000 * 103.0 / 1e6, rel=0.001)
    assert direct.engine_connections == 20_000
    assert (found.replicas, direct.replicas) == (1, 0)


def test_a_waiter_is_renewed_by_its_own_life_and_a_hand_over_replaces_a_pair() -> None:
    costs = costly(
        waiting=Cost(engine_us=10.0), handover=Cost(engine_us=70.0), pair=Cost(engine_us=1e6)
    )
    found = needs(Fleet("redis", 1000, 1, 300.0, 5.0, waiters=650, replicas=1, nodes=1), costs)
    assert found.engine_cpu == pytest.approx((650 / 3.25 * 10.0 + 5.0 * 70.0) / 1e6)


def test_a_cluster_takes_a_script_for_each_bucket() -> None:
    costs = costly(renewal_call=Cost(engine_us=100.0), script=Cost(engine_us=10.0))
    one, three = (
        needs(Fleet("redis", 10**5, 10**4, 30.0, replicas=1, nodes=nodes), costs)
        for nodes in (1, 3)
    )
    calls = 1000.0 / 101.0
    # On one server 101 claims are two scripts of at most 64. On three they are in 96 buckets.
    assert one.engine_cpu == pytest.approx(calls * (100.0 + (101 / 64 - 1) * 10.0) / 1e6)
    assert three.engine_cpu == pytest.approx(calls * (300.0 + 93.1 * 10.0) / 1e6, rel=0.01)


def test_only_silent_clients_are_pinged() -> None:
    costs = costly(idle=Cost(replica_us=1.0))
    assert needs(Fleet("redis", 1000, 400, 30.0, waiters=100), costs).replica_cpu == 500 / 1e6
    assert needs(Fleet("redis", 1000, 400, 90.0), costs).replica_cpu == 1000 / 1e6


def test_the_cost_of_a_call_is_told_from_that_of_its_claims() -> None:
    one, many = (
        Span(Cost(engine_us=1000 * (40.0 / size + 3.0)), 1000, size) for size in (2.0, 50.0)
    )
    call, each = solved(one, many)
    assert call.engine_us == pytest.approx(40.0)
    assert each.engine_us == pytest.approx(3.0)
    same = solved(many, many)
    assert same == (Cost(), many.each)


def test_the_engine_does_the_same_for_a_renewal_whoever_sends_it() -> None:
    def renewed(size: float, engine: float, replica: float) -> Span:
        used = Cost(engine_us=40.0 / size + engine, replica_us=200.0 / size + replica)
        return Span(used.times(500.0), 500.0, size)

    nothing = Span(Cost(), 1.0, 1.0)

    def found(small: Span, large: Span, memory: float) -> Found:
        lease = Cost(engine_memory=memory, replica_memory=7.0)
        return Found(
            *(nothing, nothing, nothing, small, large, nothing, lease, lease, Cost(), Cost()),
            connections=2.0,
            latency=0.001,
            peak=100.0,
        )

    direct, service = ways(
        found(renewed(1.0, 3.0, -200.0), renewed(1.0, 3.0, -200.0), 500.0),
        found(renewed(4.0, 3.0, 60.0), renewed(50.0, 3.0, 60.0), 9000.0),
    )
    assert direct.renewal_call.engine_us == pytest.approx(40.0)
    assert direct.renewal.engine_us == pytest.approx(3.0)
    assert direct.renewal.replica_us == 0.0
    assert service.renewal_call.engine_us == pytest.approx(40.0)
    assert service.renewal_call.replica_us == pytest.approx(200.0)
    assert service.renewal.replica_us == pytest.approx(60.0)
    # Many leases of one direct client tell what the engine keeps.
    assert service.lease == Cost(engine_memory=500.0, replica_memory=7.0)


# --- the limits ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("costs", "asked", "limit"),
    [
        (FREE, fleet(10**5), "replica files"),
        (FREE, fleet(10**5, service=False), "engine connections"),
        (costly(pair=Cost(replica_us=500.0)), fleet(10**5), "replica CPU"),
        (costly(pair=Cost(engine_us=9e5)), fleet(10**4), "engine CPU"),
        (costly(lease=Cost(engine_memory=1e7)), fleet(10**5), "engine memory"),
        (costly(connection=Cost(replica_memory=1e6)), fleet(10**5), "replica memory"),
        (costly(pair=Cost(engine_bytes=1e7)), fleet(10**4), "engine network"),
    ],
)
def test_the_limit_that_is_met_first_is_named(costs: Costs, asked: Fleet, limit: str) -> None:
    if limit == "replica CPU":
        asked = replace(asked, rate=50_000.0)
    assert needs(asked, costs).limit == limit


def test_slow_calls_limit_a_replica() -> None:
    slow = replace(FREE, service=replace(NOTHING, latency=0.1))
    found = needs(Fleet("redis", 1000, 0, 30.0, 5000.0), slow)
    assert found.limit == "replica calls"  # 640 claims a second, of which 70 % are used
    assert found.replicas == 13  # 12, and a spare one


def test_a_plan_has_room_for_a_replica_that_dies() -> None:
    found = needs(fleet(10**5), FREE)
    others = found.replicas - 1
    assert others * HEADROOM * Machine().files >= 10**5


def test_the_costs_of_another_engine_are_refused() -> None:
    with pytest.raises(ValueError, match="the costs are those of redis, not of etcd"):
        needs(fleet(1000, "etcd"), FREE)


# --- the stored constants -----------------------------------------------------------------------


def test_each_engine_has_constants_with_a_source() -> None:
    assert sorted(STORED) == ENGINES == sorted(RULES)
    for engine, costs in STORED.items():
        assert costs.engine == engine
        for name in ("date", "commit", "engine", "python", "cores", "processor"):
            assert costs.about[name] not in {"", "unknown"}, (engine, name)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("service", [True, False])
def test_each_constant_is_used(engine: str, *, service: bool) -> None:
    costs = STORED[engine]
    way = costs.service if service else costs.direct
    plain = Fleet(engine, 1000, 100, 30.0, 10.0, service=service, replicas=2, nodes=3)
    for field in fields(Way):
        value = getattr(way, field.name)
        if not isinstance(value, Cost):
            continue
        if field.name == "script" and not (service and RULES[engine].buckets):
            continue  # a direct client renews one claim in a call
        asked = replace(plain, waiters=100) if field.name in WAITERS else plain
        changed: dict[str, Any] = {field.name: value + Cost(*[100.0] * len(fields(Cost)))}
        dearer = replace(way, **changed)
        more = replace(costs, service=dearer) if service else replace(costs, direct=dearer)
        pairs = zip(amounts(needs(asked, costs)), amounts(needs(asked, more)), strict=True)
        assert all(a < b for a, b in pairs), field.name
        (reason, *_) = (each for each in needs(asked, costs).reasons if each.constant == field.name)
        assert reason.count > 0.0


WAITERS = {"handover", "waiting", "waiter"}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("service", [True, False])
def test_a_larger_fleet_never_needs_less(engine: str, *, service: bool) -> None:
    small = Fleet(engine, 1000, 100, 30.0, 10.0, waiters=10, service=service)
    for name in ("clients", "locks", "rate", "waiters"):
        # Enough clients to hold all of them. One that holds or waits renews, and is not pinged.
        start = small if name == "clients" else replace(small, clients=10**7)
        before = needs(start, STORED[engine])
        for power in range(1, 6):
            size: dict[str, Any] = {name: getattr(small, name) * 10**power}
            grown = replace(start, **size)
            after = needs(grown, STORED[engine])
            assert after.replicas >= before.replicas
            assert after.nodes >= before.nodes
            assert after.engine_connections >= before.engine_connections
            before = after


@pytest.mark.parametrize("engine", ENGINES)
def test_the_service_saves_connections_to_the_engine(engine: str) -> None:
    found = {way: needs(fleet(10**5, engine, service=way), STORED[engine]) for way in (True, False)}
    if engine != "sqlite":  # which has none
        assert found[True].engine_connections < found[False].engine_connections / 100
    assert found[True].replicas >= 8


def test_the_constants_of_one_engine_are_replaced_and_the_others_stay(tmp_path: Path) -> None:
    path = tmp_path / "costs.toml"
    store("redis", as_table(STORED["redis"]), path)
    store("etcd", as_table(STORED["etcd"]), path)
    cheaper = replace(STORED["redis"], busiest=0.5)
    store("redis", as_table(cheaper), path)
    assert read(path) == {"etcd": STORED["etcd"], "redis": cheaper}


# --- the command --------------------------------------------------------------------------------


def plan(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks", "plan", *words]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )


ASKED = ("--clients", "1e6", "--locks", "2e5", "--ttl", "30", "--rate", "5e3")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_plan_is_printed_for_each_engine(engine: str, capsys: pytest.CaptureFixture[str]) -> None:
    for clients in SIZES:
        for way in ([], ["--direct"], ["--waiters", "1e3"]):
            sizes = ["--clients", f"{clients:.0e}", "--locks", str(clients // 5), "--rate", "5e3"]
            main([*sizes, "--engine", engine, *way])
            lines = capsys.readouterr().out.splitlines()
            assert max(map(len, lines)) <= 80
            text = "\n".join(lines)
            for word in (f"{clients:,} clients", "limit met first", "connections", "--save FILE"):
                assert word in text
            assert STORED[engine].about["date"] in text.replace("\n", " ")


def test_a_plan_is_a_json_object_too() -> None:
    done = plan(*ASKED, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["measured"] == STORED["redis"].about
    assert found["service"]["replicas"] > 70
    assert found["service"]["limits"][0]["name"] == found["service"]["limit"]
    assert found["direct"]["replicas"] == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--clients", "many"], "'many' is not a number"),
        (["--clients", "-5"], "-5 is not between 0 and 1e+09"),
        (["--clients", "0"], "a plan needs at least one client"),
        (["--clients", "1.5"], "1.5 is not a whole number"),
        (["--locks", "nan"], "nan is not between"),
        (["--ttl", "0.1"], "0.1 s is not between 1 and 86400 s"),
        (["--rate", "inf"], "inf is not between"),
        (["--engine", "excel"], "invalid choice: 'excel'"),
        (["--costs", "/nowhere"], "the constants cannot be read"),
        (["--costs", str(ROOT / "pyproject.toml")], "has no constants as `costs --save` writes"),
    ],
)
def test_nonsense_is_refused(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*ASKED, *words])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_an_engine_without_constants_is_told_how_to_get_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "costs.toml"
    store("etcd", as_table(STORED["etcd"]), path)
    with pytest.raises(SystemExit):
        main([*ASKED, "--costs", str(path)])
    assert "run python -m benchmarks costs --engine redis --save" in capsys.readouterr().err
