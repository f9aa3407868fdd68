"""Locks by plain HTTP: acquire, renew, release, list, break."""

from __future__ import annotations

import time
from threading import Thread

import pytest

import lockfast
from tests.servers import Redis
from tests.service.http.site import Answered, Site


def later(seconds: float, act: object) -> Thread:
    """Do something in another thread after a while."""

    def run() -> None:
        time.sleep(seconds)
        assert callable(act)
        act()

    thread = Thread(target=run)
    thread.start()
    return thread


def test_a_lock_is_acquired_renewed_and_released(site: Site) -> None:
    granted = site.acquire("a", purpose="the report")
    assert granted.status == 200
    assert int(granted.body["token"]) > 0
    assert isinstance(granted.body["token"], str)
    assert 29.0 < granted.body["valid"] < granted.body["left"] <= 30.0
    (shown,) = site.who("a")
    assert shown["purpose"] == "the report"
    assert shown["host"] == "127.0.0.1"
    assert shown["ticket"] == granted.body["token"]
    handle = granted.body["handle"]
    (renewed,) = site.renew(handle)
    assert (renewed["state"], renewed["token"]) == ("held", granted.body["token"])
    assert site.release(handle)
    assert not site.release(handle)
    assert not site.who("a")
    assert site.renew(handle) == [{"state": "gone"}]


def test_the_tokens_of_a_lock_increase(site: Site) -> None:
    tokens = []
    for _ in range(3):
        granted = site.acquire("b").body
        tokens.append(int(granted["token"]))
        site.release(granted["handle"])
    assert tokens == sorted(set(tokens))


def test_a_request_that_does_not_wait_is_told_who_has_the_lock(site: Site, redis: Redis) -> None:
    with lockfast.connect(redis.url) as client, client.lock("c", purpose="night run") as lease:
        busy = site.acquire("c")
        assert busy.status == 409
        assert busy.body["error"] == "busy"
        assert busy.body["holder"]["purpose"] == "night run"
        assert busy.body["holder"]["ticket"] == str(lease.token)
        assert len(site.who("c")) == 1  # it has left nothing in the queue
    granted = site.acquire("c")
    assert granted.status == 200
    site.release(granted.body["handle"])


def test_a_request_waits_until_the_lock_is_free(site: Site) -> None:
    first = site.acquire("d").body
    thread = later(0.5, lambda: site.release(first["handle"]))
    began = time.monotonic()
    granted = site.acquire("d", wait=20)
    took = time.monotonic() - began
    thread.join()
    assert granted.status == 200
    assert 0.4 < took < 2.0  # it was woken
    assert int(granted.body["token"]) > int(first["token"])
    assert 30.0 < granted.body["valid"] < 30.0 + took  # from the moment when it was sent
    site.release(granted.body["handle"])


def test_a_waiter_goes_on_at_another_replica(site: Site, other: Site) -> None:
    first = site.acquire("e").body
    queued = site.acquire("e", wait=0.2)
    assert queued.status == 202
    assert queued.body["ahead"] == 1
    assert queued.body["holder"]["ticket"] == first["token"]
    handle = queued.body["handle"]
    thread = later(0.5, lambda: other.release(first["handle"]))
    began = time.monotonic()
    granted = other.go_on(handle, wait=20)
    thread.join()
    assert granted.status == 200
    assert granted.body["ticket"] == queued.body["ticket"]  # it has kept its place
    assert time.monotonic() - began < 2.0
    assert site.go_on(handle).body["token"] == granted.body["token"]
    assert site.release(granted.body["handle"])


def test_a_poll_keeps_a_place_that_would_end_without_it(site: Site) -> None:
    first = site.acquire("f").body
    queued = site.acquire("f", ttl=1, wait=3)
    assert queued.status == 202
    assert queued.body["left"] > 0.5
    time.sleep(1.5)
    assert site.go_on(queued.body["handle"], wait=1).status == 410
    site.release(first["handle"])


def test_a_claim_that_is_broken_is_gone_for_its_poll(site: Site) -> None:
    first = site.acquire("g").body
    queued = site.acquire("g", wait=0.1).body
    (_, waiting) = site.who("g")
    found: list[Answered] = []
    thread = later(0, lambda: found.append(site.go_on(queued["handle"], wait=15)))
    time.sleep(0.3)
    broken = site.post("/v1/break", {"name": "g", "id": waiting["id"], "reason": "test"})
    assert broken.body == {"broken": True}
    thread.join()
    assert found[0].status == 410
    site.release(first["handle"])


def test_a_break_says_who_has_done_it_and_why(site: Site, redis: Redis) -> None:
    first = site.acquire("h").body
    (held,) = site.who("h")
    wanted = {"name": "h", "id": held["id"], "reason": "it hangs"}
    assert site.post("/v1/break", wanted).body == {"broken": True}
    assert site.post("/v1/break", wanted).body == {"broken": False}
    assert site.renew(first["handle"]) == [{"state": "gone"}]
    with lockfast.connect(redis.url) as client:
        (record,) = client.breaks("h")
    assert record.reason == "it hangs"
    assert record.by == "somebody at 127.0.0.1 by HTTP"
    assert str(record.ticket) == first["token"]


def test_readers_share_a_lock_and_a_writer_does_not(site: Site) -> None:
    readers = [site.acquire("i", kind="read").body for _ in range(2)]
    assert [each["token"] for each in readers] == [None, None]
    assert readers[1]["floor"] == readers[0]["ticket"]
    assert site.acquire("i", kind="write").status == 409
    for each in readers:
        site.release(each["handle"])
    writer = site.acquire("i", kind="write").body
    assert writer["token"] is not None
    mismatch = site.acquire("i")
    assert (mismatch.status, mismatch.body["error"]) == (409, "kind-mismatch")
    site.release(writer["handle"])


def test_a_semaphore_has_permits(site: Site) -> None:
    first = site.acquire("j", kind="semaphore", capacity=3, weight=2).body
    assert first["token"] is None
    assert site.acquire("j", kind="semaphore", capacity=3, weight=2).status == 409
    second = site.acquire("j", kind="semaphore", capacity=3)
    assert second.status == 200
    shown = {(each["kind"], each["capacity"], each["weight"]) for each in site.who("j")}
    assert shown == {("semaphore", 3, 2), ("semaphore", 3, 1)}
    for each in (first, second.body):
        site.release(each["handle"])


def test_many_handles_are_renewed_at_once(site: Site) -> None:
    held = [site.acquire(f"k{n}", ttl=5 + n).body["handle"] for n in range(3)]
    queued = site.acquire("k0", wait=0.1).body["handle"]
    site.release(held[1])
    states = [each["state"] for each in site.renew(*held, queued, held[0])]
    assert states == ["held", "gone", "held", "waiting", "held"]
    for handle in (*held, queued):
        site.release(handle)


def test_the_reply_can_be_sent_as_it_is(site: Site) -> None:
    granted = site.acquire("l").body
    assert site.post("/v1/renew", granted).body["results"][0]["state"] == "held"
    assert site.post("/v1/release", granted).body == {"held": True}


def test_locks_are_listed_in_pages(site: Site) -> None:
    handles = [site.acquire(f"many:{n}").body["handle"] for n in range(30)]
    found: list[str] = []
    cursor = ""
    while True:
        page = site.get(f"/v1/locks?prefix=many:{cursor}").body
        found += [each["name"] for each in page["locks"]]
        if page["cursor"] is None:
            break
        cursor = f"&cursor={page['cursor']}"
    assert set(found) == {f"many:{n}" for n in range(30)}
    for handle in handles:
        site.release(handle)


def test_the_guarantees_are_those_of_the_engine(site: Site) -> None:
    found = site.get("/v1/guarantees").body
    assert found["engine"].startswith("Redis")
    assert (found["level"], found["best"]) == ("fenced", "fenced")
    assert found["findings"]


@pytest.mark.parametrize("wait", [0, 5])
def test_a_request_that_is_repeated_finds_the_claim_of_the_first(
    site: Site, other: Site, wait: float
) -> None:
    name = f"m{wait}"
    first = site.acquire(name, key="order-17", wait=wait)
    again = other.acquire(name, key="order-17", wait=wait)
    assert (first.status, again.status) == (200, 200)
    assert again.body["token"] == first.body["token"]
    assert len(site.who(name)) == 1
    assert site.acquire(name, key="order-18").status == 409
    assert other.release(again.body["handle"])
    assert not site.release(first.body["handle"])
    for each in (site, other):  # a copy that a proxy sends late acquires nothing
        assert each.acquire(name, key="order-17", wait=wait).status == 410
    assert not site.who(name)


def test_an_idempotency_key_is_for_one_lock(site: Site) -> None:
    """Otherwise a reader's claim would be taken for a writer's."""
    reader = site.acquire("n", key="k", kind="read").body
    assert site.acquire("n", key="k", kind="write").status == 409
    another = site.acquire("n2", key="k").body
    assert another["token"] is not None
    for each in (reader, another):
        site.release(each["handle"])


def test_a_waiter_with_an_idempotency_key_keeps_its_place(site: Site, other: Site) -> None:
    first = site.acquire("o").body
    queued = site.acquire("o", key="k", wait=0.1)
    again = other.acquire("o", key="k", wait=0.1)
    assert (queued.status, again.status) == (202, 202)
    assert queued.body["ticket"] == again.body["ticket"]
    for each in (first, queued.body):
        site.release(each["handle"])


def test_a_client_of_the_library_and_one_of_http_exclude_each_other(
    site: Site, redis: Redis
) -> None:
    granted = site.acquire("p").body
    with lockfast.connect(redis.url) as client:
        assert client.lock("p").try_acquire() is None
        thread = later(0.3, lambda: site.release(granted["handle"]))
        with client.lock("p", timeout=5) as lease:
            assert lease.token > int(granted["token"])
        thread.join()
