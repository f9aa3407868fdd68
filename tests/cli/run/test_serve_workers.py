"""`lockfast serve --workers`: several processes at one address."""

from __future__ import annotations

import os
import re
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families as parsed

import lockfast
from lockfast.service.keys import new_key, stored
from tests.cli.run.program import PATIENCE, Program
from tests.servers import Redis, free_port, wait_until
from tests.servers.process import is_running

MANY = 40  # clients: that one of two workers gets none of them is as good as impossible


@pytest.fixture(scope="module")
def server() -> Iterator[Redis]:
    with Redis() as server:
        yield server


def children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii")
    return [int(each) for each in found.split()]


class Served:
    """A service with two workers."""

    def __init__(self, program: Program, port: int) -> None:
        self.program = program
        self.parent = program.process.pid
        self.port = port
        self.url = f"lockfast://127.0.0.1:{port}"

    def workers(self) -> list[int]:
        """Wait until both run, and return their process ids."""
        wait_until(lambda: len(children(self.parent)) == 2, "two workers run", PATIENCE)
        return children(self.parent)

    def page(self) -> str:
        url = f"http://127.0.0.1:{self.port}/metrics"
        with urlopen(url, timeout=10) as reply:  # it is ours
            return str(reply.read().decode())

    def connections(self) -> Counter[str]:
        """Return how many clients each worker has."""
        found: Counter[str] = Counter()
        for family in parsed(self.page()):
            for sample in family.samples:
                if sample.name == "lock_service_connections":
                    found[sample.labels["worker"]] += int(sample.value)
        return found


@contextmanager
def served(url: str, *args: str) -> Iterator[Served]:
    port = free_port()
    with Program(url, "serve", "--workers", "2", "--port", str(port), *args) as program:
        program.says("serving")
        yield Served(program, port)


def test_clients_are_spread_over_the_workers_and_keep_their_locks_when_one_dies(
    server: Redis,
) -> None:
    with served(server.url) as service, ExitStack() as stack:
        clients = [stack.enter_context(lockfast.connect(service.url)) for _ in range(MANY)]
        leases = [
            stack.enter_context(client.lock(f"spread:{number}", ttl=20, timeout=20))
            for number, client in enumerate(clients)
        ]
        wait_until(lambda: service.connections().total() == MANY, "all are counted", PATIENCE)
        assert set(+service.connections()) == {"0", "1"}
        one, two = service.workers()
        os.kill(one, signal.SIGKILL)
        service.program.says("worker 0 ended by signal 9, and is started again")
        assert two in service.workers()
        # Each client connects again when it renews.
        wait_until(lambda: service.connections().total() == MANY, "all are back", PATIENCE)
        for lease in leases:
            lease.ensure_held()


def status(port: int, key: str) -> int:
    """Return what the service answers to a key."""
    request = Request(
        f"http://127.0.0.1:{port}/v1/guarantees", headers={"Authorization": f"Bearer {key}"}
    )
    try:
        with urlopen(request, timeout=30) as reply:  # noqa: S310  # it is ours
            return int(reply.status)
    except HTTPError as error:
        return error.code


def test_a_key_that_was_removed_stays_removed_when_a_worker_is_replaced(
    server: Redis, tmp_path: Path
) -> None:
    kept, removed = new_key(), new_key()
    path = tmp_path / "lockfast.toml"
    path.write_text(f"[keys]\n{stored('kept', kept)}\n{stored('removed', removed)}\n")
    with served(server.url, "--config", str(path)) as service:
        assert status(service.port, removed) == 200
        path.write_text(f"[keys]\n{stored('kept', kept)}\n")
        service.program.send(signal.SIGHUP)
        reloaded = "the configuration was reloaded"
        wait_until(lambda: service.program.stderr.count(reloaded) == 2, "both know it", PATIENCE)
        for number, worker in enumerate(service.workers()):
            os.kill(worker, signal.SIGKILL)
            service.program.says(f"worker {number} ended by signal 9, and is started again")
        new = service.workers()
        wait_until(lambda: status(service.port, kept) == 200, "they serve", PATIENCE)
        assert {status(service.port, removed) for _ in range(10)} == {401}
        # And one that finds no configuration waits for it.
        path.write_text("")
        os.kill(new[0], signal.SIGKILL)
        service.program.says(
            "a worker waits until the configuration can be used: it lets everybody"
        )
        assert {status(service.port, removed) for _ in range(5)} == {401}
        path.write_text(f"[keys]\n{stored('kept', kept)}\n")
        os.kill(new[1], signal.SIGKILL)  # so that it must be the other one that answers
        wait_until(lambda: status(service.port, kept) == 200, "it serves", PATIENCE)


def test_the_page_has_each_worker_and_each_metric_once(server: Redis) -> None:
    with served(server.url) as service:
        service.workers()
        wait_until(lambda: set(service.connections()) == {"0", "1"}, "both show figures", PATIENCE)
        page = service.page()
        names = re.findall(r"^# TYPE (\S+)", page, re.MULTILINE)
        assert len(names) == len(set(names)) == 15
        assert all('worker="' in line for line in page.splitlines() if not line.startswith("#"))


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_parent_drains_all_workers(server: Redis, ending: signal.Signals) -> None:
    other = free_port()
    with (
        served(server.url) as service,
        Program(server.url, "serve", "--port", str(other)) as spare,
        ExitStack() as stack,
    ):
        spare.says("serving")
        workers = service.workers()
        url = f"{service.url},127.0.0.1:{other}"
        clients = [stack.enter_context(lockfast.connect(url)) for _ in range(MANY)]
        leases = [
            stack.enter_context(client.lock(f"drained:{number}", timeout=20))
            for number, client in enumerate(clients)
        ]
        service.program.send(ending)
        assert service.program.wait() == 0
        assert not [each for each in workers if is_running(each)]
        assert "have not left" not in service.program.stderr
        for lease in leases:
            lease.ensure_held()


def test_when_the_parent_is_killed_the_workers_end(server: Redis) -> None:
    with served(server.url) as service:
        workers = service.workers()
        wait_until(lambda: set(service.connections()) == {"0", "1"}, "both serve", PATIENCE)
        service.program.process.kill()
        service.program.wait()
        wait_until(lambda: not any(map(is_running, workers)), "they have ended", PATIENCE)


def test_a_reload_reaches_all_workers(server: Redis, tmp_path: Path) -> None:
    first, second = new_key(), new_key()
    keys = tmp_path / "keys.toml"
    keys.write_text(stored("first", first) + "\n" + stored("second", second) + "\n")
    with served(server.url, "--keys-file", str(keys)) as service, ExitStack() as stack:
        service.workers()
        url = f"lockfast://:{first}@127.0.0.1:{service.port}"
        for number in range(MANY):
            client = stack.enter_context(lockfast.connect(url))
            client.lock(f"reload:{number}", timeout=20).acquire().release()
        keys.write_text(stored("second", second) + "\n")
        service.program.send(signal.SIGHUP)
        said = "the configuration was reloaded. API keys: 1"
        wait_until(lambda: service.program.stderr.count(said) == 2, "both have reloaded", PATIENCE)
        ended = re.findall(r"connections ended: (\d+)", service.program.stderr)
        # One that ends at the first may connect to the second before that one has reloaded.
        assert sum(map(int, ended)) >= MANY
        assert len(service.workers()) == 2


def test_workers_that_die_again_and_again_end_the_service(server: Redis) -> None:
    with served(server.url) as service:
        killed: set[int] = set()
        while service.program.process.poll() is None and len(killed) < 20:
            for each in set(children(service.parent)) - killed:
                os.kill(each, signal.SIGKILL)
                killed.add(each)
        assert service.program.wait() == 70
        assert "one of too many: the service ends" in service.program.stderr
        assert 11 <= len(killed) <= 13
        assert not any(map(is_running, killed))


def test_more_workers_than_there_can_be_are_refused(server: Redis, tmp_path: Path) -> None:
    config = tmp_path / "lockfast.toml"
    config.write_text(f'url = "{server.url}"\nworkers = 65\n')
    with Program(None, "serve", "--config", str(config), "--check") as program:
        assert program.wait() == 78
        assert "workers must be 1 to 64" in program.stderr
