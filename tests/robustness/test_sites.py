"""Sites: each serves real clients, on hosts of their own, before and after a crash."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Self

import psycopg
import pymysql
import pytest

import lockfast
from tests.previous.version import ROOT, VERSIONS
from tests.robustness.faults import FAULTS, Stage
from tests.robustness.faults.fault import Order
from tests.robustness.hosts import host_of
from tests.robustness.hosts.network import traces
from tests.robustness.sites import (
    SITES,
    ClusterSite,
    MySQLSite,
    PostgresSite,
    RedlockSite,
    SavingRedisSite,
    SentinelSite,
    ServiceSite,
    Site,
)
from tests.robustness.sites.site import Access
from tests.servers import Connection, Redis, ServerError, wait_until
from tests.servers.node import rows

_TTL = 1.0
# Beside other tests, a node does not answer the others for a second now and then, and is excluded.
GALERA = pytest.param("galera", marks=pytest.mark.wide)
# How clients come to a site, if not plainly, and what happens to its servers meanwhile.
ACCESSES = [
    ("redis", Access.TLS, "kill-server"),
    ("etcd", Access.TLS, "kill-server"),
    pytest.param("redlock", Access.TLS, "kill-server", marks=pytest.mark.wide),
    pytest.param("mysql", Access.TLS, "stale-failover", marks=pytest.mark.wide),
    pytest.param("postgres", Access.TLS, "stale-failover", marks=pytest.mark.wide),
    pytest.param("postgres", Access.POOLED, "stale-failover", marks=pytest.mark.wide),
]


@pytest.fixture(scope="module", params=["redlock", "etcd", "zookeeper", GALERA])
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    with SITES[request.param]() as started:
        yield started


@pytest.fixture(scope="module", params=[SentinelSite, ClusterSite])
def replicated(request: pytest.FixtureRequest) -> Iterator[SentinelSite | ClusterSite]:
    with request.param() as started:
        yield started


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresSite]:
    with PostgresSite() as started:
        yield started


@pytest.fixture(scope="module")
def mysql() -> Iterator[MySQLSite]:
    with MySQLSite() as started:
        yield started


@pytest.fixture(scope="module")
def saving() -> Iterator[SavingRedisSite]:
    with SavingRedisSite() as started:
        yield started


@pytest.fixture(scope="module")
def service() -> Iterator[ServiceSite]:
    site = SITES["service-redis"]()
    assert isinstance(site, ServiceSite)
    with site as started:
        yield started


def _token(site: Site) -> int:
    """Acquire and release, as often as it takes: an ensemble may be without a leader."""
    deadline = time.monotonic() + 60.0
    with lockfast.connect(site.entry) as client:
        while True:
            try:
                lease = client.lock("x", ttl=_TTL).acquire(timeout=10)
                lease.release()
            except (lockfast.EngineUnavailable, lockfast.LeaseLost):
                assert time.monotonic() < deadline
            else:
                return lease.token


def _begin(site: Site, kind: str, turn: int = 0, seconds: float = 0.2) -> Callable[[], None]:
    """Do it as soon as it can be done: an ensemble may have no leader for a while."""
    deadline = time.monotonic() + 30.0
    while True:
        try:
            return FAULTS[kind].begin(Stage(site, [], _TTL), Order(seconds, turn)).undo
        except ServerError:
            if time.monotonic() > deadline:
                raise


def test_every_server_of_a_site_is_on_a_host_of_its_own(site: Site) -> None:
    addresses = [host_of(server).address for server in site.servers]
    assert len(set(addresses)) == len(addresses) == {"redlock": 5}.get(site.name, 3)


def test_a_site_serves_again_after_a_crash_and_its_tokens_go_on(site: Site) -> None:
    before = _token(site)
    undo = _begin(site, "kill-server")
    between = _token(site)
    undo()
    site.wait_served()
    assert before < between < _token(site)


@pytest.mark.parametrize(("name", "access", "kind"), ACCESSES)
def test_clients_that_use_tls_or_a_pooler_are_served_before_and_after_a_crash(
    name: str, access: Access, kind: str
) -> None:
    site = SITES[name]()
    site.access = access
    with site:
        files = site.certificates
        # Each of these URLs demands TLS, and a certificate that names the proxy.
        assert files is None or str(files.ca_path) in site.entry
        assert (access is Access.POOLED) == ("PgBouncer" in site.version())
        before = _token(site)
        undo = _begin(site, kind)
        undo()
        site.wait_served()
        assert before < _token(site)


@pytest.mark.parametrize("turn", [0, 1], ids=["from-its-peers", "from-all"])
def test_a_minority_that_is_cut_off_keeps_nobody_from_the_rest(site: Site, turn: int) -> None:
    undo = _begin(site, "cut-minority", turn)
    assert _token(site)
    undo()
    site.wait_served()


def test_a_failover_of_redis_loses_what_was_acknowledged(
    replicated: SentinelSite | ClusterSite,
) -> None:
    site = replicated
    before = _token(site)
    primary = site.leader()
    key = "{0}:n"  # in a cluster, the leader has it
    with primary.connect(1.0) as line, Counting(lambda: line.command("INCR", key)) as counting:
        site.wait_in_step()
        undo = _begin(site, "stale-failover", seconds=1.0)
    assert site.leader() is not primary
    found = site.leader().command("GET", key)
    assert isinstance(found, bytes)
    assert 0 < int(found) < counting.acknowledged
    site.leader().command("DEL", key)
    assert _token(site) > before
    undo()
    assert site.serves()


@pytest.mark.parametrize("replicated", [ClusterSite], indirect=True)
def test_a_primary_is_demoted_and_keeps_its_connections(replicated: ClusterSite) -> None:
    before, primary = _token(replicated), replicated.leader()
    with primary.connect(5.0) as line:
        assert line.command("PING") == b"PONG"
        _begin(replicated, "demoted-primary")
        assert line.command("PING") == b"PONG"
    assert replicated.leader() is not primary
    assert _token(replicated) > before
    replicated.wait_served()


def _answers(node: Redis) -> bool:
    try:
        with node.connect(0.5) as line:
            return line.command("PING") == b"PONG"
    except OSError:
        return False


@pytest.mark.parametrize("turn", [0, 1], ids=["paused", "killed"])
@pytest.mark.parametrize("replicated", [ClusterSite], indirect=True)
def test_a_shard_goes_and_comes_back(replicated: ClusterSite, turn: int) -> None:
    before = _token(replicated)
    shard = [replicated.leader(), *replicated.replicas()]
    assert len(shard) == 2
    undo = _begin(replicated, "shard-down", turn)
    assert not any(map(_answers, shard))
    undo()
    replicated.wait_served()
    assert _token(replicated) > before


@pytest.mark.parametrize("replicated", [ClusterSite], indirect=True)
def test_slots_that_move_take_their_locks_along(replicated: ClusterSite) -> None:
    with lockfast.connect(replicated.url) as client:
        leases = [client.lock(f"job-{n}", ttl=30).acquire(timeout=10) for n in range(32)]
        owned = set(_slots(replicated))
        for turn in range(3):
            _begin(replicated, "move-slot", turn)()
        assert len(owned - set(_slots(replicated))) == 3
        for lease in leases:
            assert [each.token for each in client.lock(lease.name).holders()] == [lease.token]
            lease.release()


@pytest.mark.parametrize("replicated", [ClusterSite], indirect=True)
def test_a_move_that_was_given_up_half_way_is_repaired(replicated: ClusterSite) -> None:
    with lockfast.connect(replicated.url) as client:
        leases = [client.lock(f"job-{n}", ttl=30).acquire(timeout=10) for n in range(32)]
        move = replicated.cluster.begin_move(_slots(replicated)[0])
        move.move_keys(*move.keys()[:1])
        move.target.command("CLUSTER", "SETSLOT", move.slot, "STABLE")  # it knows of nothing now
        replicated.repair()
        for lease in leases:
            assert [each.token for each in client.lock(lease.name).holders()] == [lease.token]
            lease.release()


@pytest.mark.parametrize("replicated", [ClusterSite], indirect=True)
def test_a_move_whose_source_was_followed_meanwhile_is_repaired(replicated: ClusterSite) -> None:
    cluster = replicated.cluster
    move = cluster.begin_move(0)
    move.source.kill()
    running = [node for node in cluster.nodes if node is not move.source]
    wait_until(lambda: any(cluster.owns(node, 0) for node in running), "it is followed", 30)
    move.source.start()
    wait_until(move.source.is_linked, "it follows", 30)
    assert not cluster.in_order(move.target)  # and never again by itself
    replicated.wait_served()
    assert cluster.in_order(move.target)


def _slots(site: ClusterSite) -> list[int]:
    """Tell the slots of the leader's keys."""
    keys = rows(site.leader().command("KEYS", "*"))
    return [site.cluster.slot_of(key) for key in keys if isinstance(key, bytes)]


def test_a_failover_of_postgresql_loses_what_was_acknowledged(postgres: PostgresSite) -> None:
    before = _token(postgres)
    primary = postgres.leader()
    primary.command("CREATE TABLE told ()")
    with (
        psycopg.connect(primary.url, autocommit=True, tcp_user_timeout=1000) as line,
        Counting(lambda: line.execute("INSERT INTO told DEFAULT VALUES")) as counting,
    ):
        postgres.wait_in_step()
        undo = _begin(postgres, "stale-failover", seconds=1.0)
    assert postgres.leader() is not primary
    ((found,),) = postgres.leader().command("SELECT count(*) FROM told")
    assert 0 < found < counting.acknowledged
    assert _token(postgres) > before
    undo()
    assert postgres.serves()


def test_postgresql_comes_back_after_a_crash_while_it_was_paused(postgres: PostgresSite) -> None:
    before = _token(postgres)
    paused = _begin(postgres, "pause-server")
    killed = _begin(postgres, "kill-server")
    paused()
    killed()
    assert _token(postgres) > before


def test_the_clock_of_postgresql_jumps_and_jumps_back(postgres: PostgresSite) -> None:
    def ahead() -> float:
        ((now,),) = postgres.primary.command("SELECT extract(epoch FROM clock_timestamp())::float8")
        return float(now) - time.time()

    undo = _begin(postgres, "clock-server")
    assert 3000.0 < ahead() < 4000.0
    undo()
    assert -300.0 < ahead() < 300.0


def test_a_failover_of_mariadb_loses_what_was_acknowledged(mysql: MySQLSite) -> None:
    before = _token(mysql)
    primary = mysql.leader()
    primary.command("CREATE TABLE lockfast.told (n INT)")
    with closing(primary.connect(read_timeout=1, write_timeout=1)) as line:
        cursor = line.cursor()
        with Counting(lambda: cursor.execute("INSERT INTO lockfast.told VALUES (1)")) as counting:
            mysql.wait_in_step()
            undo = _begin(mysql, "stale-failover", seconds=1.0)
    assert mysql.leader() is not primary
    ((found,),) = mysql.leader().command("SELECT count(*) FROM lockfast.told")
    assert 0 < found < counting.acknowledged
    assert _token(mysql) > before
    undo()
    assert mysql.serves()
    _begin(mysql, "kill-server")()  # the new primary takes writes after a crash too
    assert _token(mysql) > before


def test_the_clock_of_mariadb_jumps_and_jumps_back(mysql: MySQLSite) -> None:
    def ahead() -> float:
        ((now,),) = mysql.primary.command("SELECT unix_timestamp(now(6))")
        return float(now) - time.time()

    undo = _begin(mysql, "clock-server")
    assert 3000.0 < ahead() < 4000.0
    undo()
    assert -300.0 < ahead() < 300.0


@pytest.mark.parametrize("site", [GALERA], indirect=True)
def test_a_client_leaves_a_galera_node_that_is_not_in_the_majority(site: Site) -> None:
    with lockfast.connect(site.url) as client:
        client.lock("y", ttl=60).acquire(timeout=10).release()
        writer = site.leader()
        undo = _begin(site, "cut-leader")  # from the other nodes, and not from its clients
        wait_until(lambda: not writer.is_ready(), "it knows that it is alone", 30.0)
        client.lock("y", ttl=60).acquire(timeout=10).release()
        undo()
    site.wait_served()


@pytest.mark.timeout(300)  # each node is started twice, once to say how far its data go
@pytest.mark.parametrize("site", [GALERA], indirect=True)
def test_a_galera_cluster_that_was_killed_begins_anew_with_its_locks(site: Site) -> None:
    with lockfast.connect(site.url) as client, lockfast.connect(site.url) as other:
        lease = client.lock("z", ttl=600).acquire(timeout=10)
        _begin(site, "kill-all")()
        assert [each.token for each in other.lock("z").holders()] == [lease.token]
    assert _token(site) > 0


def test_the_clock_of_redis_jumps_and_jumps_back(saving: SavingRedisSite) -> None:
    def ahead() -> float:
        said = saving.redis.command("TIME")
        assert isinstance(said, list)
        assert isinstance(said[0], bytes)
        return int(said[0]) - time.time()

    undo = _begin(saving, "clock-server")
    assert 3000.0 < ahead() < 4000.0
    undo()
    assert -300.0 < ahead() < 300.0


def test_a_slow_disk_keeps_redis_from_acknowledging(saving: SavingRedisSite) -> None:
    def takes_its_time() -> bool:
        began = time.monotonic()
        saving.redis.command("SET", "slow", 1)
        return time.monotonic() - began >= _TTL / 2

    undo = _begin(saving, "slow-fsync", turn=1)
    # The tracer holds it, and may not yet look at its calls.
    wait_until(takes_its_time, "a write takes as long as the disk", 30.0)
    undo()
    assert saving.redis.command("GET", "slow") == b"1"


def test_a_crash_of_redis_that_syncs_keeps_its_data(saving: SavingRedisSite) -> None:
    saving.redis.command("SET", "kept", 1)
    _begin(saving, "kill-server")()
    assert saving.redis.command("GET", "kept") == b"1"
    _begin(saving, "restart-empty")()
    assert saving.redis.command("GET", "kept") is None


def test_a_request_that_is_doubled_is_carried_out_twice(saving: SavingRedisSite) -> None:
    proxy = saving.proxies[0]
    redis = saving.redis
    sha = redis.command("SCRIPT", "LOAD", "return redis.call('INCR', KEYS[1])")
    assert isinstance(sha, bytes)
    with Connection(proxy.host, proxy.port) as connection:
        assert connection.command("PING") == b"PONG"
        undo = _begin(saving, "duplicate", seconds=0.1)
        assert connection.command("EVALSHA", sha, 1, "twice") == 1
        wait_until(lambda: proxy.doubled == 1, "the copy is carried out", 30.0)
    assert redis.command("GET", "twice") == b"2"
    undo()
    with Connection(proxy.host, proxy.port) as connection:
        assert connection.command("EVALSHA", sha, 1, "twice") == 3
    assert proxy.doubled == 1


def test_a_site_leaves_no_host_and_no_process_behind() -> None:
    with SITES["redis"]() as site:
        pids = [server.pid for server in site.servers]
        site.client_host(0).cut()
        left = traces(site.network.number)
        assert len(left) == 5  # a bridge, and two hosts with a cable each
    assert not left & traces(site.network.number)
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


@pytest.mark.parametrize("kind", ["kill-replica", "drain-replica", "rolling-restart"])
def test_a_lease_outlives_the_replica_that_it_was_acquired_at(
    service: ServiceSite, kind: str
) -> None:
    # Each client chooses a replica. That the fault meets none of them is unlikely.
    with contextlib.ExitStack() as stack:
        leases = []
        for number in range(2 * len(service.service)):
            client = stack.enter_context(lockfast.connect(service.entry))
            leases.append(client.lock(f"kept:{number}", ttl=5).acquire(timeout=10))
        _begin(service, kind)()
        service.wait_served()
        for lease in leases:
            lease.release()


# A client stays at a replica that is cut off from its engine alone, and is told so.
@pytest.mark.parametrize(
    ("kind", "turn"), [("pause-replica", 0), ("cut-replica", 0), ("cut-replica", 2)]
)
def test_clients_are_served_beside_a_replica_that_is_not_there(
    service: ServiceSite, kind: str, turn: int
) -> None:
    before = _token(service)
    undo = _begin(service, kind, turn)
    assert _token(service) > before
    undo()
    service.wait_served()


def test_a_client_is_told_that_its_replica_is_cut_off_from_the_engine(
    service: ServiceSite,
) -> None:
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(lockfast.connect(url)) for url in service.entries]
        undo = _begin(service, "cut-replica", 1)
        told = 0
        for client in clients:
            try:
                client.lock("told", ttl=_TTL).acquire(timeout=5).release()
            except lockfast.EngineUnavailable:
                told += 1
        assert told == 1
        undo()
    service.wait_served()


def test_a_rolling_restart_changes_the_version_of_each_replica() -> None:
    site = SITES["service-redis"]()
    assert isinstance(site, ServiceSite)
    site.previous = VERSIONS["41e525b"]
    with site:
        (other,) = {replica.root for replica in site.service} - {ROOT}
        assert [replica.root for replica in site.service] == [ROOT, other, ROOT]
        before = _token(site)
        _begin(site, "rolling-restart")()
        assert [replica.root for replica in site.service] == [other, ROOT, other]
        assert _token(site) > before
        site.service[0].kill()
        site.heal()
        assert site.serves()


class Counting:
    """A thread that writes until it cannot, and counts what was acknowledged."""

    def __init__(self, write: Callable[[], object]) -> None:
        self.acknowledged = 0
        self._write = write
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        with contextlib.suppress(OSError, psycopg.Error, pymysql.MySQLError):
            while True:
                self._write()
                self.acknowledged += 1

    def __enter__(self) -> Self:
        self._thread.start()
        wait_until(lambda: self.acknowledged > 0, "something is acknowledged")
        return self

    def __exit__(self, *_ended: object) -> None:
        self._thread.join()


def test_a_node_that_was_restarted_counts_as_no_member_until_it_has_joined() -> None:
    with RedlockSite() as site:
        site.wait_sound()
        assert site._members() == len(site.nodes)
        site.nodes[0].kill()
        site.nodes[0].start()  # with its data, and nobody there to let it join
        assert site._members() == len(site.nodes) - 1
