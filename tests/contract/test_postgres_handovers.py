"""Hand-overs on PostgreSQL: those of different names do not wait for one another's commits."""

from __future__ import annotations

import threading

import lockfast
from lockfast.engines.postgres import install
from tests.servers import Postgres, wait_until

WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
# What a commit with a NOTIFY in it holds to its end: there is one for the whole server.
QUEUE = (
    "SELECT count(*) FROM pg_locks WHERE locktype = 'object' AND classid = 1262 AND objid = 0 "
    "AND mode = 'AccessExclusiveLock'"
)


def test_a_release_that_waits_for_the_disk_or_a_standby_holds_up_no_other_names_hand_over() -> None:
    with Postgres(config={"fsync": "off"}) as server:
        install(server.url)

        def standby(name: str) -> None:
            server.command(f"ALTER SYSTEM SET synchronous_standby_names = '{name}'")
            server.command("SELECT pg_reload_conf()")

        with lockfast.connect(server.url) as client, lockfast.connect(server.url) as other:
            lease = client.lock("slow", ttl=30).acquire()
            entered = threading.Event()

            def enter() -> None:
                with other.lock("slow", ttl=30):
                    entered.set()

            def write() -> None:
                server.command("CREATE TABLE of_another_program ()")

            threads = [threading.Thread(target=each) for each in (enter, write, lease.release)]
            threads[0].start()
            wait_until(lambda: len(client.lock("slow").queue()) == 2, "one waits")
            standby("gone")
            try:
                # The setting takes effect a moment after the reload.
                threads[1].start()
                wait_until(lambda: server.command(WAITING) == [(1,)], "a commit waits")
                threads[2].start()
                wait_until(lambda: server.command(WAITING) == [(2,)], "the release waits")
                assert server.command(QUEUE) == [(0,)]
                assert not entered.is_set()  # nobody is told before it is safe
            finally:
                standby("")
            assert entered.wait(10)
            for thread in threads:
                thread.join(10)
