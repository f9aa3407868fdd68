"""The harness keeps its promises: servers start and end, and faults are the faults named."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.servers import (
    Cluster,
    Connection,
    Proxy,
    Redis,
    ReplyError,
    SentinelSet,
    Server,
    ServerClock,
    ServerError,
    is_running,
    wait_until,
)

# The sessions that tests start import the harness from here.
_ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def shared() -> Iterator[Redis]:
    with Redis() as server:
        yield server


@pytest.fixture
def redis(shared: Redis) -> Redis:
    shared.command("FLUSHALL")
    return shared


def _connect(proxy: Proxy, timeout: float = 5.0) -> Connection:
    return Connection(proxy.host, proxy.port, timeout=timeout)


# --- processes ----------------------------------------------------------------------------------


def test_a_server_that_dies_at_once_shows_its_log() -> None:
    server = Redis(config={"no-such-option": "1"})
    with pytest.raises(ServerError, match="ended while starting") as caught:
        server.start()
    assert "no-such-option" in "".join(caught.value.__notes__)
    server.close()
    assert not server.folder.exists()


def test_a_server_that_never_serves_is_ended() -> None:
    class Mute(Server):
        def argv(self) -> list[str]:
            return ["sleep", "60"]

        def is_ready(self) -> bool:
            raise ConnectionRefusedError

    server = Mute("mute")
    with pytest.raises(ServerError, match="mute serves"):
        server.start(timeout=0.1)
    assert not server.alive
    server.close()


class _Sleeper(Server):
    def argv(self) -> list[str]:
        return ["sleep", "60"]

    def is_ready(self) -> bool:
        return True


def test_a_server_may_be_killed_and_started_by_several_at_once() -> None:
    server = _Sleeper("sleeper")
    try:
        with ThreadPoolExecutor(4) as pool:
            turns = [pool.submit(each) for each in [server.kill, server.launch] * 100]
            for turn in turns:
                turn.result()
    finally:
        server.close()


def test_servers_die_with_a_killed_session() -> None:
    script = (
        "import time; from tests.servers import Redis; r = Redis().start(); r.pause();"
        "print(r.pid, r.folder, flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd=_ROOT, stdout=subprocess.PIPE
    ) as session:
        assert session.stdout is not None
        pid, folder = session.stdout.readline().split()
        assert is_running(int(pid))
        session.kill()
        wait_until(lambda: not is_running(int(pid)), "the server is gone")
        wait_until(lambda: not Path(folder.decode()).parent.exists(), "its folder is gone")


def test_servers_are_ended_at_exit_but_not_by_a_forked_child() -> None:
    script = (
        "import os, sys; from tests.servers import Redis; r = Redis().start();"
        "child = os.fork(); child or sys.exit();"
        "os.waitpid(child, 0); assert r.command('PING') == b'PONG'; print(r.pid)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=_ROOT, stdout=subprocess.PIPE, check=True
    )
    assert not is_running(int(done.stdout))


# --- redis --------------------------------------------------------------------------------------


def test_replies(redis: Redis) -> None:
    assert redis.command("SET", "a", b"\r\n") == b"OK"
    assert redis.command("MGET", "a", "b") == [b"\r\n", None]
    assert redis.command("STRLEN", "a") == 2
    with pytest.raises(ReplyError, match="WRONGTYPE"):
        redis.command("LPOP", "a")
    assert redis.url == f"redis://127.0.0.1:{redis.port}"


def test_restart_keeps_the_port_and_maybe_the_data() -> None:
    for appendonly in (False, True):
        with Redis(appendonly=appendonly) as server:
            port = server.port
            server.command("SET", "a", 1)
            server.restart(keep_data=True)
            assert (server.port, server.command("GET", "a")) == (port, b"1")
            server.restart(keep_data=False)
            assert (server.port, server.command("GET", "a")) == (port, None)


def test_kill_forgets_and_pause_keeps() -> None:
    with Redis() as server:
        server.command("SET", "a", 1)
        server.pause()
        with server.connect(timeout=0.1) as connection, pytest.raises(TimeoutError):
            connection.command("GET", "a")
        server.resume()
        assert server.command("GET", "a") == b"1"
        server.kill()
        assert not server.alive
        with pytest.raises(ConnectionRefusedError):
            server.command("PING")
        server.start()
        assert server.command("GET", "a") is None


def test_password_and_acl_user() -> None:
    with Redis(password='p"@:/ w') as server:  # noqa: S106
        assert server.url == f"redis://:p%22%40%3A%2F%20w@127.0.0.1:{server.port}"
        with Connection(server.host, server.port) as stranger:
            with pytest.raises(ReplyError, match="NOAUTH"):
                stranger.command("GET", "a")
            assert stranger.command("AUTH", 'p"@:/ w') == b"OK"
    with Redis(username="alice", password="pw", acl="~app:* +get") as server:  # noqa: S106
        assert server.url.startswith("redis://alice:pw@")
        with Connection(server.host, server.port) as alice:
            alice.command("AUTH", "alice", "pw")
            assert alice.command("GET", "app:1") is None
            with pytest.raises(ReplyError, match="NOPERM"):
                alice.command("SET", "app:1", 1)
        assert server.command("SET", "app:1", 1) == b"OK"


def test_tls_and_a_replica_over_it() -> None:
    with Redis(tls=True) as server, Redis(tls=True, replica_of=server) as replica:
        assert server.url == f"rediss://127.0.0.1:{server.port}?ssl_ca_certs={server.ca_path}"
        assert server.command("SET", "a", 1) == b"OK"
        replica.wait_linked()
        wait_until(lambda: replica.command("GET", "a") == b"1", "replicated")
        with (
            pytest.raises(OSError, match=r"clos|reset"),
            Connection(server.host, server.port) as plain,
        ):
            plain.command("PING")


def test_maxmemory() -> None:
    with Redis(maxmemory="100kb") as server, pytest.raises(ReplyError, match="OOM"):
        server.command("SET", "a", "x")


# --- clock --------------------------------------------------------------------------------------


def _time_of(server: Redis) -> float:
    reply = server.command("TIME")
    assert isinstance(reply, list)
    assert isinstance(reply[0], bytes)
    return float(reply[0])


def test_the_clock_of_a_live_server_moves() -> None:
    clock = ServerClock()
    with Redis(env=clock.env) as server:
        assert abs(_time_of(server) - time.time()) < 2
        server.command("SET", "short", 1, "PX", 30000)
        server.command("SET", "long", 1, "PX", 40000)
        clock.advance(31)
        assert server.command("MGET", "short", "long") == [None, b"1"]
        assert abs(_time_of(server) - time.time() - 31) < 2
        clock.advance(-3600.5)
        assert clock.offset == -3569.5
        assert abs(_time_of(server) - time.time() + 3569.5) < 2
        left = server.command("PTTL", "long")
        assert isinstance(left, int)
        assert left > 3_600_000
        clock.advance_monotonic(100)
        assert server.command("PING") == b"PONG"


def test_a_server_whose_clock_went_back_is_idle() -> None:
    clock = ServerClock()
    with Redis(env=clock.env) as server:
        clock.advance(-3600)
        fill = "for i = 1, 20000 do redis.call('SET', i, string.rep('x', 100)) end"
        server.command("EVAL", fill, 0)
        server.command("FLUSHALL")  # something to be given back to the system
        began = _seconds_of(server)
        time.sleep(2.0)
        assert _seconds_of(server) - began < 0.1


def _seconds_of(server: Server) -> float:
    """Give the processor time that a server has used."""
    fields = Path(f"/proc/{server.pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_the_two_clocks_move_apart() -> None:
    clock = ServerClock()
    clock.advance(-1000.25)
    clock.advance_monotonic(500.75)
    script = "import time; print(time.monotonic(), time.time())"
    env = {**os.environ, **clock.env}
    printed = subprocess.check_output([sys.executable, "-c", script], env=env)
    monotonic, wall = map(float, printed.split())
    assert abs(monotonic - time.monotonic() - 500.75) < 2
    assert abs(wall - time.time() + 1000.25) < 2


# --- proxy --------------------------------------------------------------------------------------


@pytest.fixture
def proxy(redis: Redis) -> Iterator[Proxy]:
    with Proxy(redis.host, redis.port, record=True) as started:
        yield started


def test_a_proxy_passes_and_counts(proxy: Proxy) -> None:
    with _connect(proxy) as client:
        assert client.command("ECHO", "x" * 200_000) == b"x" * 200_000
        assert proxy.open_connections == 1
    wait_until(lambda: proxy.open_connections == 0, "closed")
    assert proxy.connections == 1
    assert len(b"".join(proxy.requests)) == proxy.bytes_to_server > 200_000
    assert proxy.bytes_to_client > 200_000


def test_a_cut_drops_both_ways_and_healing_resets(redis: Redis, proxy: Proxy) -> None:
    with _connect(proxy, 0.1) as busy, _connect(proxy) as idle:
        assert busy.command("PING") == idle.command("PING") == b"PONG"
        proxy.cut()
        with pytest.raises(TimeoutError):
            busy.command("SET", "a", 1)
        with _connect(proxy, 0.1) as late, pytest.raises(TimeoutError):
            late.command("SET", "b", 1)
        proxy.heal()
        assert redis.command("EXISTS", "a", "b") == 0
        with pytest.raises(ConnectionResetError):
            busy.socket.recv(1)
        assert idle.command("PING") == b"PONG"


def test_a_cut_of_replies_lets_requests_through(redis: Redis, proxy: Proxy) -> None:
    with _connect(proxy, 0.1) as client:
        proxy.cut(requests=False)
        with pytest.raises(TimeoutError):
            client.command("SET", "a", 1)
        assert redis.command("GET", "a") == b"1"


def test_reset(proxy: Proxy) -> None:
    with _connect(proxy) as client:
        client.command("PING")
        proxy.reset()
        assert client.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) != 0
        assert proxy.open_connections == 0
    with _connect(proxy) as client:
        assert client.command("PING") == b"PONG"


def test_lost_replies_are_executed(redis: Redis, proxy: Proxy) -> None:
    proxy.lose_replies(2)
    for turn in (1, 2):
        with _connect(proxy) as client, pytest.raises(ConnectionResetError):
            client.command("INCR", "a")
        assert redis.command("GET", "a") == b"%d" % turn
    with _connect(proxy) as client:
        assert client.command("INCR", "a") == 3


def test_only_the_matching_reply_is_lost(redis: Redis, proxy: Proxy) -> None:
    proxy.lose_reply_matching(lambda request: b"INCR" in request)
    with _connect(proxy) as client:
        assert client.command("PING") == b"PONG"
        with pytest.raises(ConnectionResetError):
            client.command("INCR", "a")
        assert redis.command("GET", "a") == b"1"
    with _connect(proxy) as client:
        assert client.command("INCR", "a") == 2


def test_a_held_request_arrives_after_its_client_has_gone(redis: Redis, proxy: Proxy) -> None:
    proxy.hold_requests(lambda request: b"APPEND" in request, count=1)
    with _connect(proxy, 0.1) as client:
        client.command("PING")
        with pytest.raises(TimeoutError):
            client.command("APPEND", "a", "first")
    proxy.wait_held()
    with _connect(proxy) as client:
        client.command("APPEND", "a", "second")
    assert redis.command("GET", "a") == b"second"
    assert proxy.release_requests() == 1
    assert redis.command("GET", "a") == b"secondfirst"
    wait_until(lambda: proxy.open_connections == 0, "the late copy's connection is closed")


def test_held_requests_of_a_waiting_client_are_answered(proxy: Proxy) -> None:
    proxy.hold_requests()
    with _connect(proxy) as client:
        client.send("ECHO", "a")
        proxy.wait_held()
        assert proxy.release_requests() == 1
        assert client.read() == b"a"


def test_a_held_request_tells_whose_it_is(proxy: Proxy) -> None:
    proxy.hold_requests()
    with _connect(proxy) as client:
        assert proxy.holding == set()
        client.send("ECHO", "a")
        proxy.wait_held()
        assert proxy.holding == {"127.0.0.1"}
        proxy.release_requests()


def test_a_doubled_request_is_carried_out_again_though_its_client_is_gone(
    redis: Redis, proxy: Proxy
) -> None:
    proxy.double_requests(lambda request: b"APPEND" in request, 1, after=0.1)
    with _connect(proxy) as client:
        client.command("APPEND", "a", "x")
    wait_until(lambda: proxy.doubled == 1, "the copy is answered")
    assert redis.command("GET", "a") == b"xx"
    with _connect(proxy) as client:
        assert client.command("APPEND", "a", "y") == 3
    assert proxy.doubled == 1


def test_a_copy_that_is_still_under_way_does_not_keep_the_proxy(redis: Redis) -> None:
    with Proxy(redis.host, redis.port) as proxy, _connect(proxy) as client:
        proxy.double_requests(lambda request: b"APPEND" in request, 1, after=600.0)
        assert client.command("APPEND", "a", "x") == 1


def test_a_proxy_leads_to_another_server(redis: Redis, proxy: Proxy) -> None:
    redis.command("SET", "who", "first")
    with Redis() as other, _connect(proxy) as client:
        other.command("SET", "who", "second")
        assert client.command("GET", "who") == b"first"
        proxy.retarget(other.host, other.port)
        with pytest.raises(ConnectionResetError):
            client.command("GET", "who")
        with _connect(proxy) as again:
            assert again.command("GET", "who") == b"second"


def test_a_broken_predicate_is_told(redis: Redis) -> None:
    proxy = Proxy(redis.host, redis.port).start()
    proxy.hold_requests(lambda request: 1 // len(request[:0]) > 0)
    with _connect(proxy) as client, pytest.raises(ConnectionResetError):
        client.command("PING")
    with pytest.raises(ExceptionGroup, match="unhandled"):
        proxy.close()


def test_a_client_that_does_not_read_does_not_keep_the_proxy(redis: Redis) -> None:
    redis.command("SET", "big", "x" * 2**24)
    with Proxy(redis.host, redis.port) as proxy, _connect(proxy) as client:
        client.send("GET", "big")
        client.send("QUIT")
        wait_until(lambda: proxy.bytes_to_client > 2**24, "replied")


def test_delay(redis: Redis, proxy: Proxy) -> None:
    proxy.delay(0.2, replies=0.2)
    with _connect(proxy) as client:
        began = time.monotonic()
        client.send("ECHO", "a")
        client.send("ECHO", "b")
        assert [client.read(), client.read()] == [b"a", b"b"]
        assert 0.4 <= time.monotonic() - began < 0.79
        client.send("SET", "late", 1)
    wait_until(lambda: redis.command("GET", "late") == b"1", "arrived after the client went")


# --- sentinel -----------------------------------------------------------------------------------


def test_a_failover_promotes_a_replica_without_the_last_writes() -> None:
    with SentinelSet(password="pw") as group:  # noqa: S106
        assert group.url.count(",") == 2
        assert group.url.endswith("/lockfast")
        primary = group.primary()
        assert primary is group.nodes[0]
        primary.command("SET", "kept", 1)
        group.wait_in_step()
        assert group.cut_replica() == [group.nodes[1]]
        primary.command("SET", "lost", 1)
        assert group.kill_primary() is primary
        promoted = group.wait_failover(primary)
        assert promoted is group.nodes[1]
        assert promoted.command("MGET", "kept", "lost") == [b"1", None]
        group.heal_replica()
        primary.start()
        wait_until(primary.is_linked, "the old primary is a replica now")
        assert group.replicas() == [primary]
        group.wait_in_step()


# --- cluster ------------------------------------------------------------------------------------


def test_a_slot_moves() -> None:
    with Cluster() as cluster:
        assert cluster.url.count(",") == 2
        slot = cluster.slot_of("{t}1")
        source = cluster.owner(slot)
        source.command("SET", "{t}1", "a")
        source.command("SET", "{t}2", "b")
        move = cluster.begin_move(slot)
        assert move.source is source
        assert sorted(move.keys()) == [b"{t}1", b"{t}2"]
        with pytest.raises(ReplyError, match=f"ASK {slot} {move.target.address}"):
            source.command("GET", "{t}3")
        move.move_keys("{t}1")
        with pytest.raises(ReplyError, match="TRYAGAIN"):
            source.command("MGET", "{t}1", "{t}2")
        move.finish()
        with pytest.raises(ReplyError, match=f"MOVED {slot} {move.target.address}"):
            source.command("GET", "{t}2")
        assert move.target.command("MGET", "{t}1", "{t}2") == [b"a", b"b"]
        assert cluster.owner(slot) is move.target
        assert cluster.move_slot(slot, source) is source
        assert source.command("GET", "{t}1") == b"a"
