"""Every exit without a lease gives the claim up, unless its client can find it again."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from threading import Thread

import pytest

from tests.servers import Redis, Replica, wait_until
from tests.service.http.site import Answered, Site, replica


def send(site: Site, body: object, **headers: str) -> socket.socket:
    """Send a request for a lock, and do not wait for the answer."""
    content = json.dumps(body).encode()
    lines = [
        "POST /v1/acquire HTTP/1.1",
        "Host: localhost",
        f"Content-Length: {len(content)}",
        *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items()),
    ]
    sock = socket.create_connection(("127.0.0.1", site.port))
    sock.sendall("\r\n".join([*lines, "", ""]).encode() + content)
    return sock


def waiting(site: Site, name: str) -> Callable[[], bool]:
    return lambda: len(site.who(name)) == 2


def test_a_client_that_leaves_while_it_waits_leaves_the_queue(site: Site) -> None:
    held = site.acquire("exit:a").body
    sock = send(site, {"name": "exit:a", "ttl": 30, "wait": 60})
    wait_until(waiting(site, "exit:a"), "it waits")
    sock.close()
    wait_until(lambda: len(site.who("exit:a")) == 1, "it has left the queue", 2.0)
    site.release(held["handle"])


def test_a_client_that_leaves_with_a_handle_keeps_its_place_for_a_while(site: Site) -> None:
    held = site.acquire("exit:b").body
    queued = site.acquire("exit:b", wait=0.1).body
    sock = send(site, {"handle": queued["handle"], "wait": 60})
    time.sleep(0.3)
    sock.close()
    time.sleep(0.5)
    assert len(site.who("exit:b")) == 2
    assert site.go_on(queued["handle"]).status == 202
    for each in (held, queued):
        site.release(each["handle"])


def test_a_client_that_leaves_with_an_idempotency_key_keeps_its_place_for_a_while(
    site: Site,
) -> None:
    held = site.acquire("exit:c").body
    wanted = {"name": "exit:c", "ttl": 30, "wait": 60}
    sock = send(site, wanted, Idempotency_Key="k")
    wait_until(waiting(site, "exit:c"), "it waits")
    ticket = site.who("exit:c")[1]["ticket"]
    sock.close()
    time.sleep(0.5)
    again = site.acquire("exit:c", key="k", wait=0.1)
    assert (again.status, again.body["ticket"]) == (202, ticket)
    for each in (held, again.body):
        site.release(each["handle"])


def test_a_client_that_leaves_at_once_leaves_no_lock(redis: Redis) -> None:
    with replica(redis.url) as one:
        site = one.site
        site.release(site.acquire("exit:d").body["handle"])  # the engine is open
        redis.pause()
        sock = send(site, {"name": "exit:d", "ttl": 60})
        time.sleep(0.3)
        sock.close()
        time.sleep(0.3)
        redis.resume()
        time.sleep(0.5)
        assert not site.who("exit:d")


def test_an_abandoned_place_ends_by_itself(site: Site) -> None:
    held = site.acquire("exit:e").body
    queued = site.acquire("exit:e", ttl=1, wait=0.1)
    assert queued.status == 202
    site.release(held["handle"])  # it is granted to a client that does not come
    granted = site.acquire("exit:e", wait=10)
    assert granted.status == 200
    site.release(granted.body["handle"])


@pytest.mark.parametrize("resumed", [False, True], ids=["new", "resumed"])
def test_a_drain_answers_who_waits(redis: Redis, site: Site, *, resumed: bool) -> None:
    name = f"exit:f{resumed}"
    with Replica(redis.url) as one:
        there = Site(one.port)
        held = there.acquire(name).body
        body: dict[str, object] = {"name": name, "ttl": 30, "wait": 60}
        if resumed:
            body = {"handle": there.acquire(name, wait=0.1).body["handle"], "wait": 60}
        found: list[Answered] = []
        thread = Thread(target=lambda: found.append(there.post("/v1/acquire", body, timeout=20)))
        thread.start()
        wait_until(waiting(site, name), "it waits")
        time.sleep(0.3)
        began = time.monotonic()
        one.drain()
        thread.join()
        assert time.monotonic() - began < 2.0
        assert found[0].status == 202
        assert found[0].headers["retry-after"] == "1"
        assert found[0].headers["connection"] == "close"
        assert len(site.who(name)) == 2  # it goes on at another replica, in its place
        one.drained(10.0)
    del held


def test_a_replica_that_drains_acquires_nothing_and_releases(redis: Redis) -> None:
    with Replica(redis.url) as one:
        there = Site(one.port)
        held = there.acquire("exit:g").body
        # A WebSocket that stays keeps the replica for five seconds.
        import lockfast  # noqa: PLC0415

        with lockfast.connect(one.url) as client:
            lease = client.lock("exit:h").acquire()
            one.drain()
            wait_until(lambda: not one.serves(), "it drains")
            refused = there.acquire("exit:i")
            assert refused.status == 503
            assert refused.headers["retry-after"] == "1"
            assert there.renew(held["handle"])[0]["state"] == "held"
            assert there.release(held["handle"])
            del lease
        one.drained(10.0)
