"""Hosts, sites, faults and plans: the harness's own tests."""

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.robustness.hosts import Host, Network
from tests.robustness.hosts.network import sweep, traces
from tests.servers import Redis, is_running, wait_until

_SHORT = 0.4


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    with Network() as made:
        yield made


@pytest.fixture(scope="module")
def redis(network: Network) -> Iterator[Redis]:
    with Redis(home=network.host()) as server:
        yield server


@pytest.fixture
def host(network: Network, redis: Redis) -> Iterator[Host]:
    assert redis.alive
    yield network.hosts[0]
    network.heal()


def _answers(server: Redis) -> bool:
    try:
        with server.connect(_SHORT) as connection:
            return connection.command("PING") == b"PONG"
    except OSError:
        return False


def test_a_server_at_home_listens_on_the_address_of_its_host(redis: Redis, host: Host) -> None:
    assert redis.host == host.address != "127.0.0.1"
    assert redis.command("PING") == b"PONG"


def test_a_pause_hits_the_server_itself_and_not_what_started_it(redis: Redis) -> None:
    assert int(redis.info("server")["process_id"]) == redis.pid


def test_a_host_that_is_cut_off_answers_nobody_until_it_is_healed(redis: Redis, host: Host) -> None:
    undo = host.cut()
    assert not _answers(redis)
    undo()
    wait_until(lambda: _answers(redis), "it answers again")


def test_a_host_that_is_refused_one_port_knows_at_once_and_reaches_the_others(
    network: Network, redis: Redis
) -> None:
    client = network.host()
    target = f"{redis.host}:{redis.port}"
    with Redis(home=network.hosts[0]) as other:
        undo = client.refuse(target)
        with pytest.raises(subprocess.CalledProcessError) as refused:
            _inside(redis, client, "PING")
        assert "refused" in refused.value.stderr
        assert _inside(other, client, "PING") == "PONG"
        undo()
        assert _inside(redis, client, "PING") == "PONG"


def test_a_cut_of_the_way_out_loses_the_reply_to_a_request_that_was_carried_out(
    redis: Redis, host: Host
) -> None:
    redis.command("SET", "n", 0)
    with redis.connect() as connection:
        undo = host.cut(incoming=False)
        connection.send("INCR", "n")
        wait_until(lambda: _inside(redis, host, "GET", "n") == "1", "it was carried out")
        connection.socket.settimeout(_SHORT)
        with pytest.raises(TimeoutError):
            connection.socket.recv(1)
        undo()
        connection.socket.settimeout(30.0)
        assert connection.socket.recv(64) == b":1\r\n"


def test_a_cut_of_the_way_in_keeps_the_request_away(redis: Redis, host: Host) -> None:
    redis.command("SET", "n", 0)
    with redis.connect() as connection:
        undo = host.cut(outgoing=False)
        connection.send("INCR", "n")
        connection.socket.settimeout(_SHORT)
        with pytest.raises(TimeoutError):
            connection.socket.recv(1)
        assert _inside(redis, host, "GET", "n") == "0"
        undo()
        connection.socket.settimeout(30.0)
        assert connection.socket.recv(64) == b":1\r\n"


def test_a_cut_towards_one_peer_leaves_the_others(
    redis: Redis, host: Host, network: Network
) -> None:
    undo = host.cut("198.18.255.254")
    assert _answers(redis)
    undo()
    undo = host.cut("198.18.255.254", network.address)
    assert not _answers(redis)
    undo()


def test_undoing_one_fault_leaves_the_other_on_the_same_host(redis: Redis, host: Host) -> None:
    one, other = host.cut(), host.cut()
    one()
    assert not _answers(redis)
    other()
    assert _answers(redis)


def test_a_lossy_host_loses_a_share_of_its_packets(redis: Redis, host: Host) -> None:
    host.lossy(1.0)
    assert not _answers(redis)
    host.heal()
    host.lossy(0.3)
    wait_until(lambda: _answers(redis), "one of many gets through", 60.0)


def test_a_network_leaves_no_host_link_or_rule_behind() -> None:
    with Network() as network:
        network.host().cut()
        left = traces(network.number)
        assert len(left) == 3  # a bridge, a cable, a namespace
    assert not left & traces(network.number)


_DOOMED = """
import os, signal
from tests.robustness.hosts import Network
from tests.servers import Redis
network = Network().start()
server = Redis(home=network.host()).start()
print(network.number, server.pid, flush=True)
signal.pause()
"""


def test_what_a_killed_harness_has_left_is_removed_by_the_next() -> None:
    child = subprocess.Popen([sys.executable, "-c", _DOOMED], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    with child.stdout:
        number, pid = child.stdout.readline().split()
    left = traces(int(number))
    sweep()
    assert left
    assert left == traces(int(number)), "a network in use is left alone"
    child.send_signal(signal.SIGKILL)
    child.wait()
    wait_until(lambda: not is_running(int(pid)), "its server is ended by the guard")
    sweep()
    assert not left & traces(int(number))


def _inside(redis: Redis, host: Host, *words: str) -> str:
    """Ask it on its own host, where the cut does not reach."""
    command = host.inside(["redis-cli", "-h", redis.host, "-p", str(redis.port), *words])
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
    return done.stdout.strip()
