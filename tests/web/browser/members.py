"""Who is on the dashboard while a test looks at it: holders and waiters of many kinds."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from unittest import mock

import lockfast
from lockfast.claims.payload import Who
from tests.servers import wait_until

TTL = 60.0
HOSTILE = (
    '<script>document.title = "pwned"</script>',
    "\"'><img src=x onerror=\"document.title='pwned'\">",
    "</td></title><iframe srcdoc='<script>parent.document.title=1</script>'>",
    "javascript:document.title='pwned'//{{ 7 * 7 }}{% raw %}",
    "a&name=b&id=c#d?e=%3Cb%3E&lt;i&gt;+../..//",
    "\x1b[2J\x1b[Hgone\r\nlockfast: all is well\x1b]0;pwned\x07",
    "\u202etxt.exe\u2066",
    "a-name-of-512-bytes:" + "x" * 492,
)


@contextmanager
def held(client: lockfast.Client, name: str, **said: object) -> Iterator[lockfast.Lease]:
    """Hold a lock, described as that."""
    who = {"host": "web-1", "pid": 4711, "worker": "MainThread", "service": "billing.py", **said}
    assert set(who) <= set(Who._fields) | {"value"}
    raw = json.dumps({"ttl": TTL, "since": 1_800_000_000, **who}).encode()
    with mock.patch("lockfast.claims.payload.write", return_value=raw):
        lease = client.lock(name, ttl=TTL).acquire(timeout=10)
    try:
        yield lease
    finally:
        with suppress(lockfast.LeaseLost):
            lease.release()


@contextmanager
def hostile(client: lockfast.Client) -> Iterator[None]:
    """Hold locks whose names and descriptions mean harm."""
    with ExitStack() as stack:
        for name in HOSTILE:
            fields = dict.fromkeys(("host", "worker", "service", "purpose", "subject"), name)
            stack.enter_context(held(client, name, address=name, value=name, **fields))
        yield


@contextmanager
def all_kinds(url: str) -> Iterator[None]:
    """Hold locks of every kind, let some wait, and let two wait for each other."""
    with ExitStack() as stack:
        client, *others = (
            stack.enter_context(lockfast.connect(url, deadlock_after=None)) for _ in range(5)
        )
        stack.enter_context(held(client, "invoice:42", purpose="nightly run"))
        stack.enter_context(held(client, "report", host="db-2", service="reports.py"))
        for _ in range(2):
            stack.enter_context(client.semaphore("mail", 3, ttl=TTL, purpose="newsletter"))
            stack.enter_context(client.rwlock("catalogue", ttl=TTL).read())
        stack.enter_context(client.election("scheduler", ttl=TTL).campaign("10.0.0.5:8000"))
        both = threading.Barrier(2)
        wanted = [("invoice:42",), ("catalogue",), ("left", "right"), ("right", "left")]
        threads = [
            threading.Thread(target=_wait, args=(other, both, *names))
            for other, names in zip(others, wanted, strict=True)
        ]
        for thread, other in zip(threads, others, strict=True):
            stack.callback(thread.join, 30)
            stack.callback(other.close)
            thread.start()
        # Two locks, two permits, two readers, a leader, two that wait, and two times two.
        wait_until(lambda: len(client.inspect()) == 13, "all are in their places", 30)
        yield


def _wait(client: lockfast.Client, both: threading.Barrier, *names: str) -> None:
    """Acquire locks one after the other, until the client is closed, which releases them."""
    leases = []
    with suppress(lockfast.LockfastError):
        for number, name in enumerate(names):
            lock = client.rwlock(name).write() if name == "catalogue" else client.lock(name)
            leases.append(lock.acquire())
            if number == 0 and len(names) > 1:
                both.wait(30)
