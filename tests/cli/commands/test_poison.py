"""A claim whose description was written by somebody who means harm: everybody else goes on."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import pytest

import lockfast
from lockfast.claims import payload
from lockfast.engines.redis.keys import keys
from tests.cli.commands.calls import LONG, Calls
from tests.servers import Redis, RedlockSet, wait_until
from tests.unit.claims.test_payload import POISONS

WHO = payload.Who()._asdict()
SCREEN = "\x1b[2J\x1b[H\nlockfast: lock acquired, all is well\x1b]0;pwned\x07"
POISON = {
    **{poison: raw for poison, raw in POISONS.items() if len(raw) < 1_000_000},
    "commands for a terminal": json.dumps(
        {field: SCREEN if type(default) is str else 1 for field, default in WHO.items()}
    ).encode(),
}


@contextmanager
def poisoned(url: str, name: str, raw: bytes, ttl: float = LONG) -> Iterator[lockfast.Lease]:
    """Hold a lock, described as `raw` says."""
    with lockfast.connect(url, deadlock_after=None) as client:
        with mock.patch("lockfast.claims.payload.write", return_value=raw):
            lease = client.lock(name, ttl=ttl).acquire(timeout=5)
        yield lease


@pytest.mark.parametrize("poison", POISON)
def test_a_poisoned_holder_stops_nobody_and_can_be_seen_and_broken(
    call: Calls, poison: str
) -> None:
    with (
        poisoned(call.url, "job", POISON[poison]) as lease,
        lockfast.connect(call.url) as client,
    ):
        assert client.lock("job").try_acquire() is None
        with pytest.raises(lockfast.NotAcquired) as busy:
            client.lock("job").acquire(timeout=0.05)
        assert len(str(busy.value)) < 1_500
        (holder,) = client.lock("job").holders()
        assert holder.id == lease.id
        wait_until(lambda: len(client.inspect()) == 1, "the waiter that gave up is gone")
        assert [each.id for each in client.inspect()] == [lease.id]
        assert client.deadlocks() == []
        leader = client.election("job").leader()
        assert leader is not None
        assert leader.id == lease.id
        assert client.lock("job", on_busy="skip")(lambda: "ran")() is None
        for command in (("ls",), ("who", "job"), ("watch", "--count", "1")):
            said = call(*command)
            assert (said.code, said.err) == (0, "")
            assert 0 < len(said.out) < 10_000
        assert call("deadlocks").code == 0
        assert call("ls", "--json").objects[0]["id"] == lease.id
        assert call("break", "job", "--reason", "poison", "--yes").code == 0
        with client.lock("job", timeout=5):
            pass


def test_what_cannot_be_read_is_called_so(call: Calls) -> None:
    with poisoned(call.url, "job", POISON["100,000 brackets"]):
        assert payload.UNREADABLE in call("who", "job").out


def test_a_waiter_that_logs_who_stands_in_the_way_goes_on_behind_a_poisoned_holder(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    got = threading.Event()

    def wait(client: lockfast.Client) -> None:
        with client.lock("job", timeout=30):
            got.set()

    with (
        caplog.at_level(logging.INFO, "lockfast"),
        poisoned(url, "job", POISON["an infinite pid"]) as lease,
        lockfast.connect(url) as client,
    ):
        thread = threading.Thread(target=wait, args=(client,))
        thread.start()
        wait_until(lambda: "waiting for 'job'" in caplog.text, "the log tells of the wait")
        lease.release()
        assert got.wait(10)
        thread.join()


def test_a_candidate_leads_after_a_poisoned_leader(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        caplog.at_level(logging.INFO, "lockfast"),
        poisoned(url, "lead", POISON["an infinite pid"]) as lease,
        lockfast.connect(url) as client,
    ):
        leading = threading.Event()
        with client.election("lead", ttl=3).run(lambda _: leading.set(), lambda: None):
            wait_until(lambda: "waiting for 'lead'" in caplog.text, "the candidate waits")
            lease.release()
            assert leading.wait(10)


def test_a_candidate_goes_on_after_any_exception(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with lockfast.connect(url) as client:
        election = client.election("lead", ttl=3)
        real, failed = type(election)._campaign, threading.Event()

        async def campaign(self: lockfast.Election, value: str) -> lockfast.Lease:
            if not failed.is_set():
                failed.set()
                raise ZeroDivisionError("a bug")
            return await real(self, value)

        leading = threading.Event()
        with (
            mock.patch.object(type(election), "_campaign", campaign),
            election.run(lambda _: leading.set(), lambda: None),
        ):
            assert failed.wait(5)
            assert leading.wait(10)
    assert "a bug" in caplog.text


def _spoil(server: Redis, prefix: str, name: str) -> None:
    """Write what no lock is, under keys that look like ours."""
    server.command("SET", prefix.encode() + b"{0}=\xff\xfe", b"x")
    server.command("SET", f"{prefix}{{{keys(name).bucket}}}={name}", "not ours")


@pytest.mark.parametrize("kind", ["redis", "redlock"])
def test_a_key_that_is_no_lock_hides_no_other(
    kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with RedlockSet(3) if kind == "redlock" else Redis() as servers:
        for server in servers.nodes if isinstance(servers, RedlockSet) else [servers]:
            _spoil(server, "lockfast:redlock:" if kind == "redlock" else "lockfast:", "junk")
        with lockfast.connect(servers.url) as client, client.lock("good", ttl=LONG) as lease:
            call = Calls(servers.url, capsys)
            assert [each["id"] for each in call("ls", "--json").objects] == [lease.id]
            assert call("watch", "--count", "1").code == 0
            assert client.lock("junk").queue() == []
            if kind == "redis":
                assert call("deadlocks").code == 0
