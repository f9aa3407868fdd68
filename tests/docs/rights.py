"""Rights: what a page says that a user needs, and everything that they must be enough for."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import lockfast
from tests.servers import wait_until


def documented_acl(page: Path) -> str:
    """Read a page's line on ACL: everything in backticks."""
    line = re.search(r"^- ACL:.*?(?=^-|^#)", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert line is not None
    words = " ".join(re.findall(r"`([^`]+)`", line[0])).split()
    return " ".join(["resetkeys", "resetchannels", "-@all", *words])


def do_everything(url: str) -> None:
    """Claim, refuse, wait, renew, look, release and break, with two clients, as the URL's user."""
    with lockfast.connect(url) as client, lockfast.connect(url) as other:
        assert client.guarantees().engine
        lock = client.lock("x", ttl=1)
        lease = lock.acquire()
        assert other.lock("x").try_acquire() is None

        def wait() -> None:
            with other.lock("x", ttl=1):
                pass

        waiters = [threading.Thread(target=wait) for _ in range(2)]
        for waiter in waiters:
            waiter.start()
        assert not lease.wait_lost(1.5)  # renewed, with others in the queue
        wait_until(lambda: len(lock.queue()) == 3, "two wait")
        lease.release()
        for waiter in waiters:
            waiter.join(5)
        assert lock.queue() == []
        lease = lock.acquire()
        assert other.revoke(other.lock("x").holders()[0], "a test")
        assert other.breaks("x")[0].id == lease.id
