"""What the worker processes of `lockfast demo --web` do, again and again, until they are killed.

Each process runs this module with a URL and the name of one chore, which is also the name of its
program on the dashboard.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import NoReturn

import lockfast
from lockfast.cli.demo import memory_server
from lockfast.cli.render.stderr import keep_log_quiet

PATIENCE = 60.0
ROUND = 20.0  # seconds from one deadlock to the next
LOOK = 8.0  # seconds after which a waiter searches for a deadlock: so long the picture shows it


def billing(client: lockfast.Client) -> None:
    """Send invoices. Two processes do, so one of them waits now and then."""
    for number, seconds in zip((41, 42, 42, 43), (2.0, 5.0, 3.0, 4.0), strict=True):
        with client.lock(f"invoice:{number}", ttl=10, timeout=PATIENCE, purpose="send it"):
            time.sleep(seconds)


def orders(client: lockfast.Client) -> None:
    """Acquire two locks in an order in which `stock` does not: at times they deadlock."""
    _both(client, "order:17", "stock:7")


def stock(client: lockfast.Client) -> None:
    """Acquire the same two locks the other way round."""
    _both(client, "stock:7", "order:17")


def _both(client: lockfast.Client, first: str, second: str) -> None:
    try:
        with client.lock(first, ttl=10, timeout=PATIENCE, purpose="reserve a part"):
            time.sleep(3.0)
            with client.lock(second, ttl=10, timeout=PATIENCE, purpose="reserve a part"):
                time.sleep(1.0)
    finally:
        time.sleep(ROUND - time.time() % ROUND)  # both begin together again


def reports(client: lockfast.Client) -> None:
    """Write a report. Two processes do, and the demo pauses the one that has the lock."""
    with client.lock("report", ttl=5, timeout=PATIENCE, purpose="totals of May") as lease:
        lease.wait_lost(20.0)
    time.sleep(1.0)


def imports(client: lockfast.Client) -> None:
    """Hang, until somebody breaks the lock."""
    with client.lock("import", ttl=10, timeout=PATIENCE, purpose="hangs in a query") as lease:
        lease.wait_lost(PATIENCE)
    time.sleep(2.0)


def shop(client: lockfast.Client) -> None:
    """Read a catalogue with two threads, and change it at times. Send mail, three at a time."""
    each: dict[str, Callable[[lockfast.Client], None]] = {
        "reader 1": _read,
        "reader 2": _read,
        "prices": _change,
        **{f"mail {number}": _send for number in range(1, 5)},
    }
    for name, work in each.items():
        threading.Thread(target=_forever, args=(work, client), name=name, daemon=True).start()
    with client.election("scheduler", ttl=10).campaign("10.0.0.5:8000") as lease:
        lease.wait_lost()


def _read(client: lockfast.Client) -> None:
    with client.rwlock("catalogue", ttl=10, timeout=PATIENCE, purpose="show a page").read():
        time.sleep(3.0)


def _change(client: lockfast.Client) -> None:
    time.sleep(12.0)
    with client.rwlock("catalogue", ttl=10, timeout=PATIENCE, purpose="new prices").write():
        time.sleep(2.0)


def _send(client: lockfast.Client) -> None:
    with client.semaphore("mail", 3, ttl=10, timeout=PATIENCE, purpose="newsletter"):
        time.sleep(4.0)


CHORES: dict[str, Callable[[lockfast.Client], None]] = {
    each.__name__: each for each in (billing, orders, stock, reports, imports, shop)
}


def _forever(work: Callable[[lockfast.Client], None], client: lockfast.Client) -> NoReturn:
    """Do it again and again. An error is what the demo shows, so it ends nothing."""
    while True:
        try:
            work(client)
        except lockfast.LockfastError:
            time.sleep(1.0)


def main(url: str, name: str) -> None:
    """Do one chore until this process is killed."""
    sys.argv[0] = f"{name}.py"  # as the dashboard shows it
    client = (
        memory_server.connect(url, deadlock_after=LOOK)
        if url.startswith(memory_server.SCHEME)
        else lockfast.connect(url, deadlock_after=LOOK)
    )
    _forever(CHORES[name], client)


if __name__ == "__main__":
    keep_log_quiet()
    main(*sys.argv[1:])
