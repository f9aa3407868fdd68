"""Rights: what a page says that a user needs, and everything that they must be enough for."""

from __future__ import annotations

import re
import shlex
import threading
from pathlib import Path

import lockfast
from tests.servers import wait_until

_LINES = re.MULTILINE | re.DOTALL


def documented_acl(page: Path) -> str:
    """Read the rights in a page's command ACL SETUSER, which a reader pastes into a shell."""
    command = re.search(r"^\$ redis-cli (ACL SETUSER .*?)^```", page.read_text("utf-8"), _LINES)
    assert command is not None
    words = shlex.split(command[1])  # also joins the lines
    rights = [word for word in words[words.index("on") + 1 :] if word[0] in "~&+"]
    return " ".join(["resetkeys", "resetchannels", "-@all", *rights])


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
