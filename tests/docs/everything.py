"""Everything that a user's rights must be enough for: claim, refuse, wait, renew, look, release."""

from __future__ import annotations

import threading

import lockfast
from tests.servers import wait_until


def do_everything(url: str) -> None:
    """Do it with two clients, as the user of the URL."""
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
