"""The audit log: what happens to locks, and what is denied."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lockfast
from lockfast.claims.break_records import written
from lockfast.engines.remote import messages
from lockfast.engines.remote.messages import Break
from lockfast.errors import EngineRefused
from lockfast.service import audit as module
from lockfast.service.audit import Audit, unusable
from tests.servers import Redis
from tests.servers.process import wait_until
from tests.service.served import SOON, Served, bearer
from tests.service.test_rights import CONFIG, OPS, ORDERS

HOSTILE = 'a"\n{"event": "granted"}\u2028\x1b[2J\u202e'


@pytest.fixture(scope="module")
def redis() -> Iterator[Redis]:
    with Redis() as found:
        yield found


def lines(path: Path) -> list[dict[str, Any]]:
    """Return the lines. Each must be JSON."""
    return [json.loads(line) for line in path.read_text("ascii").splitlines()]


def events(path: Path, lock: str) -> list[str]:
    return [line["event"] for line in lines(path) if line.get("lock") == lock]


def until(path: Path, lock: str, *expected: str) -> list[dict[str, Any]]:
    """Wait until these are the events of a lock."""
    wait_until(
        lambda: path.exists() and events(path, lock) == list(expected), f"{expected} are there"
    )
    return [line for line in lines(path) if line.get("lock") == lock]


@pytest.fixture
def served(redis: Redis, tmp_path: Path) -> Iterator[Served]:
    redis.command("FLUSHALL")
    with Served(tmp_path, redis.url, f'audit_file = "audit.jsonl"\n{CONFIG}') as found:
        yield found


def test_a_lock_from_grant_to_release(served: Served, tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    url = f"lockfast://:{ORDERS}@127.0.0.1:{served.port}"
    with lockfast.connect(url) as client:
        with client.lock("orders/a", ttl=1.0) as lease:
            token = lease.token
            time.sleep(1.5)  # renewals
        until(path, "orders/a", "granted", "released")
    for line in lines(path):
        assert line["subject"] == "orders"
        assert line["address"] == "127.0.0.1"
        assert line["token"] == token
        assert len(line["id"]) == 32
        assert line["time"].endswith("+00:00")
    text = path.read_text("ascii")
    assert ORDERS not in text
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_waiter_is_logged_when_it_has_the_lock(served: Served, tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    url = f"lockfast://:{ORDERS}@127.0.0.1:{served.port}"
    with lockfast.connect(url) as one, lockfast.connect(url) as two:
        lease = one.lock("orders/w").acquire()
        with pytest.raises(lockfast.NotAcquired):  # it leaves, and never had the lock
            two.lock("orders/w").acquire(timeout=0.3)

        def wait() -> None:
            two.lock("orders/w").acquire(timeout=SOON).release()

        thread = threading.Thread(target=wait)
        thread.start()
        time.sleep(0.3)
        assert events(path, "orders/w") == ["granted"]
        lease.release()
        thread.join()
        found = until(path, "orders/w", "granted", "released", "granted", "released")
    assert len({line["id"] for line in found}) == 2
    assert found[2]["token"] > found[1]["token"]


def test_a_break_a_loss_and_a_denial(served: Served, tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    name = f"orders/{HOSTILE}"
    with served.voice(bearer(ORDERS)) as voice, served.voice(bearer(OPS)) as ops:
        asked = voice.new(name)
        (stood,) = voice.claim(asked).results
        assert stood is not None
        asked.ticket, asked.granted = stood.ticket, True
        voice.call(Break(0, 2.0, [asked]))
        ops.call(Break(0, 2.0, [asked]))
        record = written(asked.id, stood.ticket, HOSTILE)
        ops.call(messages.Record(0, 2.0, name, asked.id, record))
        assert voice.renew(asked).results == [None]
        found = until(path, name, "granted", "denied", "broken", "reason", "lost")
    subjects = [line["subject"] for line in found]
    assert subjects == ["orders", "orders", "ops", "ops", "orders"]
    assert {line["id"] for line in found} == {asked.id}
    denied, reason = found[1], found[3]
    assert denied["verb"] == "break"
    assert "may not break" in denied["reason"]
    assert reason["reason"] == HOSTILE
    assert path.read_text("ascii").isprintable() or "\\u202e" in path.read_text("ascii")


def test_a_lease_that_is_not_renewed_expires_and_one_that_moves_is_known(
    served: Served, tmp_path: Path, redis: Redis
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    path = tmp_path / "audit.jsonl"
    with Served(other, redis.url, f'audit_file = "audit.jsonl"\n{CONFIG}') as second:
        with served.voice(bearer(ORDERS)) as voice, second.voice(bearer(ORDERS)) as moved:
            asked = voice.new("orders/e", 1.0)
            (stood,) = voice.claim(asked).results
            assert stood is not None
            moved.client, moved.secret = voice.client, voice.secret
            asked.ticket, asked.granted = stood.ticket, True
        with second.socket(bearer(ORDERS)) as socket:
            socket.send(messages.encode(messages.Hello(messages.VERSION, voice.secret, 2)).decode())
            socket.recv(SOON)
            renew = messages.Renew(1, 2.0, [asked], urgent=True)
            socket.send(messages.encode(renew).decode())
            socket.recv(SOON)
            until(other / "audit.jsonl", "orders/e", "moved")
        until(path, "orders/e", "granted", "expired")
        until(other / "audit.jsonl", "orders/e", "moved", "expired")


def test_a_lock_that_ends_with_its_connection(served: Served, tmp_path: Path) -> None:
    with served.voice(bearer(ORDERS)) as voice:
        voice.claim(voice.new("orders/e", on_disconnect=1.0))
    found = until(tmp_path / "audit.jsonl", "orders/e", "granted", "disconnected")
    assert found[1]["subject"] == "orders"
    assert found[1]["token"] == found[0]["token"]


def test_it_is_opened_again_on_hup(served: Served, tmp_path: Path) -> None:
    path, old = tmp_path / "audit.jsonl", tmp_path / "audit.jsonl.1"
    with served.voice(bearer(ORDERS)) as voice:
        voice.claim(voice.new("orders/1"))
        until(path, "orders/1", "granted")
        path.rename(old)
        served.reload(f'audit_file = "audit.jsonl"\n{CONFIG}')
        voice.claim(voice.new("orders/2"))
        until(path, "orders/2", "granted")
    assert "orders/2" not in old.read_text("ascii")


def test_a_full_disk_stops_no_locks_and_is_counted(redis: Redis, tmp_path: Path) -> None:
    with Served(tmp_path, redis.url, f'audit_file = "/dev/full"\n{CONFIG}') as served:
        url = f"lockfast://:{ORDERS}@127.0.0.1:{served.port}"
        with lockfast.connect(url) as client:
            for _ in range(3):
                with client.lock("orders/full"):
                    time.sleep(0.05)
        served.program.says("lines of the audit log '/dev/full' are lost: No space left")
        assert served.program.stderr.count("are lost") == 1
        page = served.metrics(ORDERS)
    (line,) = [each for each in page.splitlines() if each.startswith("lock_service_audit_lost_t")]
    assert int(line.split()[1]) == 6


def test_it_can_be_standard_output(redis: Redis, tmp_path: Path) -> None:
    with (
        Served(tmp_path, redis.url, CONFIG, "--audit-file", "-") as served,
        served.voice(bearer(ORDERS)) as voice,
    ):
        voice.claim(voice.new("orders/out"))
        served.program.says('"event": "granted"')
        assert json.loads(served.program.stdout)["lock"] == "orders/out"


def test_workers_write_whole_lines(redis: Redis, tmp_path: Path) -> None:
    text = f'workers = 2\naudit_file = "audit.jsonl"\n{CONFIG}'
    with Served(tmp_path, redis.url, text) as served:
        url = f"lockfast://:{ORDERS}@127.0.0.1:{served.port}"

        def work(number: int) -> None:
            with lockfast.connect(url) as client:
                for turn in range(25):
                    with client.lock(f"orders/{number}/{turn}"):
                        pass

        threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        path = tmp_path / "audit.jsonl"
        wait_until(lambda: len(lines(path)) == 300, "all lines are there")


def test_a_client_is_told_what_is_denied_and_the_log_knows_the_limit(
    redis: Redis, tmp_path: Path
) -> None:
    text = CONFIG.replace("[subjects.orders]", "[subjects.orders]\nmax_ttl = 5")
    with Served(tmp_path, redis.url, f'audit_file = "audit.jsonl"\n{text}') as served:
        url = f"lockfast://:{ORDERS}@127.0.0.1:{served.port}"
        with lockfast.connect(url) as client, pytest.raises(EngineRefused, match="max_ttl"):
            client.lock("orders/long", ttl=30.0).acquire()
        (line,) = until(tmp_path / "audit.jsonl", "orders/long", "denied")
        assert "max_ttl" in line["reason"]
        assert "verb" not in line


def test_a_line_fits_into_a_pipe_and_keeps_the_name_of_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    audit = Audit(str(path), lambda _: None)
    audit.write("denied", lock="\x01" * 512, subject="\u202e" * 350, reason="\u202e" * 9_000)
    audit.close()
    (line,) = lines(path)
    assert line["lock"] == "\x01" * 512
    assert len(path.read_bytes()) < 4096


def test_a_line_after_one_that_was_cut_off_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a disk does it that becomes full, and has room again later."""
    path = tmp_path / "audit.jsonl"
    lost: list[int] = []
    audit = Audit(str(path), lost.append)
    write, room = os.write, [30]

    def cut(file: int, data: bytes) -> int:
        return write(file, data[: room[0]])

    monkeypatch.setattr("lockfast.service.audit.os.write", cut)
    audit.write("granted", lock="a")
    wait_until(lambda: lost == [1], "one is lost")
    room[0] = 9_999
    audit.write("granted", lock="b")
    audit.close()
    first, second = path.read_text("ascii").splitlines()
    assert len(first) == 30
    assert json.loads(second)["lock"] == "b"


def test_lines_that_come_too_fast_are_lost_and_nobody_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WAITING", 5)
    lost: list[int] = []
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    audit = Audit(str(fifo), lost.append)  # nobody reads it
    for _ in range(50):
        audit.write("granted", lock="a")
    assert sum(lost) >= 40
    threading.Thread(target=fifo.read_bytes, daemon=True).start()
    audit.close()


def test_what_cannot_be_written_is_said_before_it_serves(tmp_path: Path) -> None:
    assert unusable("-") == ""
    assert unusable(str(tmp_path / "new")) == ""
    assert "folder" in unusable(str(tmp_path))
    assert "no folder" in unusable(str(tmp_path / "none" / "new"))
