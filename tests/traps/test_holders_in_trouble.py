"""Traps 19 to 21: a holder that is busy, forks, or gets late answers."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

import lockfast
from lockfast import EngineUnavailable, NotAcquired, State
from tests.servers import Proxy, Redis, wait_until
from tests.traps.forking import WAYS
from tests.traps.modes import Client
from tests.traps.waiting import in_background, take_soon
from tests.traps.wire import is_claim, is_renewal, is_resignation, via

Connect = Callable[[str], Client]
_ROOT = Path(__file__).parents[2]


# --- 19: the heartbeat starves with the application's pool --------------------------------------


def test_trap_19_leases_are_renewed_while_every_request_of_the_application_hangs(
    either: Connect, proxy: Proxy, server: Redis
) -> None:
    client = either(via(proxy))
    lease = client.lock("x", ttl=0.8).acquire()
    wait_until(
        lambda: bool(server.command("PUBSUB", "CHANNELS", "lockfast:*")), "the heart listens"
    )
    proxy.hold_requests(lambda request: not is_renewal(request))
    stuck = [in_background(client.lock(f"stuck-{n}").acquire) for n in range(16)]
    proxy.wait_held()
    time.sleep(1.0)  # over the ttl
    assert lease.state is State.HELD
    proxy.release_requests()
    for each in stuck:
        each.result(10).release()
    lease.release()


def test_trap_19_leases_are_renewed_while_a_resignation_hangs(
    either: Connect, proxy: Proxy, client: lockfast.Client
) -> None:
    with client.lock("busy"):
        mine = either(via(proxy))
        lease = mine.lock("x", ttl=0.8).acquire()
        proxy.hold_requests(is_resignation)
        with pytest.raises(NotAcquired):
            mine.lock("busy").acquire(timeout=0.1)  # the heart resigns this claim, in vain
        proxy.wait_held()
        time.sleep(1.0)  # over the ttl
        assert lease.state is not State.LOST
        proxy.release_requests()
    lease.release()


def test_trap_19_threads_that_begin_at_once_share_one_heart(server: Redis) -> None:
    # In a process of its own: other engines' drivers leave threads behind in this one.
    argv = [sys.executable, "-m", "tests.traps.hearts", server.url]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


# --- 20: a forked child releases its parent's lock ----------------------------------------------


@pytest.mark.parametrize("in_loop", [False, True])
def test_trap_20_whatever_a_forked_child_does_its_parent_keeps_the_lock(
    server: Redis, client: lockfast.Client, *, in_loop: bool
) -> None:
    with ExitStack() as stack:
        parents = {how: stack.enter_context(_forking(server.url, how, in_loop)) for how in WAYS}
        kept = {how: _line(parent) for how, parent in parents.items()}
        taken = {how: client.lock(how).try_acquire() is not None for how in WAYS}
        ended = {how: parent.communicate("go on\n", 5) for how, parent in parents.items()}
    assert kept == dict.fromkeys(WAYS, "HELD 0\n")
    assert taken == dict.fromkeys(WAYS, False)
    assert ended == dict.fromkeys(WAYS, ("", ""))  # and no complaint about it
    for how in WAYS:
        assert client.lock(how).try_acquire() is not None


@contextmanager
def _forking(url: str, how: str, in_loop: bool) -> Iterator[subprocess.Popen[str]]:  # noqa: FBT001  # see above
    argv = [sys.executable, "-m", "tests.traps.forking", url, how, "0.6", how]
    with subprocess.Popen(
        [*argv, "--aio"] if in_loop else argv,
        cwd=_ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as parent:
        try:
            yield parent
        finally:
            if parent.poll() is None:
                os.killpg(parent.pid, signal.SIGKILL)  # the child too, if it hangs


def _line(parent: subprocess.Popen[str]) -> str:
    assert parent.stdout is not None
    return in_background(parent.stdout.readline).result(10)


# --- 21: how long a lease is good ---------------------------------------------------------------


def test_trap_21_a_lease_counts_from_before_the_request_was_sent(
    either: Connect, proxy: Proxy
) -> None:
    client = either(via(proxy))
    client.lock("warm").acquire().release()
    proxy.delay(0, replies=0.5)
    lease = client.lock("x", ttl=1.5).acquire()
    assert 0 < lease.remaining <= 1.0
    assert lease.state is State.HELD


def test_trap_21_a_reply_later_than_the_ttl_gives_no_lease(
    either: Connect, proxy: Proxy, client: lockfast.Client
) -> None:
    late = either(via(proxy))
    late.lock("warm").acquire().release()
    proxy.delay(0, replies=0.6)
    with pytest.raises(EngineUnavailable):
        late.lock("x", ttl=0.5).acquire(timeout=0.7)
    proxy.heal()
    take_soon(client.lock("x"))


def test_trap_21_a_retried_claim_counts_from_its_first_copy(
    either: Connect, proxy: Proxy, client: lockfast.Client
) -> None:
    mine = either(via(proxy))
    mine.lock("warm").acquire().release()
    proxy.delay(0, replies=0.2)
    proxy.lose_reply_matching(is_claim)
    lease = mine.lock("x", ttl=3).acquire()
    [entry] = client.lock("x").holders()
    assert entry.id == lease.id
    assert lease.remaining <= entry.left


def test_trap_21_no_lease_is_measured_with_the_wall_clock() -> None:
    source = _ROOT / "src" / "lockfast"
    used = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*.py")
        if "testing" not in path.parts  # tests for engines; they hold no lease of a user
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if _is_wall_clock(node)
    }
    assert used == {
        "guards/signed/proofs.py",  # when a token was signed, by the clock of another machine
        "service/signing.py",
        "claims/payload.py",  # it tells people since when; nothing is computed from it
        "breaks.py",  # the same: when a lock was broken
        "claims/break_records.py",
        # A ballot's number is proposed by the wall clock, as tokens are; no lease is.
        "engines/redlock/claiming.py",
        "engines/redlock/installation.py",
        "engines/sqlite/claims.py",  # tokens
        "engines/sqlite/break_records.py",  # records are kept for about a day
        # Until when a copy may be applied, where no server decides that; no lease is.
        "engines/wall_clock.py",
        # A token base that is far in the future is refused; no lease is computed from it.
        "engines/zookeeper/__init__.py",
        "telemetry.py",  # a span's place in a trace; how long it lasted is measured by our clock
        "show/claims.py",  # it tells people
        "cli/demo/chores.py",  # workers of a demo begin their rounds together
        "cli/demo/staff.py",  # since when a worker of a demo seems to hang
        "web/look.py",  # as show/claims.py, in a browser
        "web/render.py",
        "web/history.py",
        "web/onlooker.py",
        "cli/commands/watch.py",
        "integrations/celery/beat.py",  # a schedule is made of wall times
        "service/server.py",  # a certificate expires at a wall time
        "service/tracing.py",  # a span's place in a trace
        "service/replica.py",  # a token (JWT) expires at a wall time, and ends its connection
        "service/http/acquisition.py",  # the same, and ends a wait
        "service/http/call.py",  # a request's number must grow from replica to replica
        "service/http/shapes.py",  # it tells people since when
        "service/audit.py",  # it tells people when
    }


def _is_wall_clock(node: ast.AST) -> bool:
    if isinstance(node, ast.ImportFrom):
        names = {alias.name for alias in node.names}
        return node.module == "datetime" or (
            node.module == "time" and bool(names & {"time", "time_ns"})
        )
    if isinstance(node, ast.Import):
        return any(alias.name == "datetime" for alias in node.names)
    return (
        isinstance(node, ast.Attribute)
        and node.attr in ("time", "time_ns", "CLOCK_REALTIME")
        and isinstance(node.value, ast.Name)
        and node.value.id == "time"
    )
