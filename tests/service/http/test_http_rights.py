"""Rights, limits, tokens and the audit log hold for HTTP as they do for the WebSocket."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from lockfast.engines.remote.messages import Claim
from lockfast.service.keys import stored
from tests.servers import Redis, wait_until
from tests.service.http.site import Answered, Site
from tests.service.served import Served, bearer
from tests.service.signing_keys import new_pem, written
from tests.service.test_rights import CONFIG, KEYS, MAY, NAMES, NOTHING, OPS, ORDERS, WHO
from tests.service.test_tokens import CONFIG as TOKENS
from tests.service.test_tokens import KEYS as PUBLIC
from tests.service.test_tokens import token

LIMITED = f"""
{KEYS}

[subjects.orders]
claim = [""]
inspect = [""]
%s
"""


@pytest.fixture(scope="module")
def served(redis: Redis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("served"), redis.url, CONFIG) as found:
        yield found


def done(site: Site, verb: str, name: str) -> Answered:
    """Do something to a lock."""
    if verb == "claim":
        answer = site.acquire(name)
        if answer.status == 200:
            site.release(answer.body["handle"])
        return answer
    if verb == "inspect":
        return site.get(f"/v1/locks?name={name}")
    return site.post("/v1/break", {"name": name, "id": "0" * 32, "reason": "a test"})


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("verb", ["claim", "inspect", "break"])
@pytest.mark.parametrize("who", WHO)
def test_each_subject_may_do_what_is_configured_and_nothing_else(
    served: Served, who: str, verb: str, name: str
) -> None:
    answer = done(Site(served.port, WHO[who]), verb, name)
    if name in MAY.get((who, verb), ()):
        assert answer.status == 200
    else:
        assert answer.status == 403
        assert f"'{who}' may not" in answer.body["message"]
        assert f"[subjects.{who}]" in answer.body["message"]


def test_a_denied_claim_is_not_made(served: Served) -> None:
    assert Site(served.port, ORDERS).acquire("x", wait=5).status == 403
    assert Site(served.port, OPS).who("x") == []


def test_a_prefix_is_listed_only_if_all_of_it_may_be_seen(served: Served) -> None:
    orders = Site(served.port, ORDERS)
    assert orders.get("/v1/locks?prefix=orders/").status == 200
    assert orders.get("/v1/locks").status == 403
    assert Site(served.port, NOTHING).get("/v1/locks?prefix=orders/").status == 403


def test_who_is_blocked_learns_by_whom_only_if_it_may_inspect(served: Served) -> None:
    orders = Site(served.port, ORDERS)
    for name, seen in (("orders/busy", True), ("shared/busy", False)):
        handle = orders.acquire(name).body["handle"]
        busy = orders.acquire(name)
        assert busy.status == 409
        assert (busy.body["holder"] is not None) is seen
        orders.release(handle)


def test_the_subject_is_in_the_list(served: Served) -> None:
    orders = Site(served.port, ORDERS)
    handle = orders.acquire("orders/stamped").body["handle"]
    (shown,) = Site(served.port, OPS).who("orders/stamped")
    assert (shown["subject"], shown["address"]) == ("orders", "127.0.0.1")
    orders.release(handle)


@pytest.mark.parametrize(
    ("limit", "status"),
    [("max_ttl = 20", 403), ("max_claims = 1", 403), ("max_requests = 2", 429)],
)
def test_limits(redis: Redis, tmp_path: Path, limit: str, status: int) -> None:
    with Served(tmp_path, redis.url, LIMITED % limit) as served:
        site = Site(served.port, ORDERS)
        answers = [site.acquire(f"limits {place}", ttl=30.0) for place in range(3)]
        assert answers[-1].status == status
        assert limit.partition(" ")[0] in answers[-1].body["message"]
        if status == 429:
            assert int(answers[-1].headers["retry-after"]) >= 1
            held = [each.body["handle"] for each in answers if each.status == 200]
            assert site.renew(*held)[0]["state"] == "held"  # a lease is kept all the same
            held_too = [site.release(handle) for handle in held]
            assert held_too == [True] * len(held)


def test_requests_that_wait_count_as_connections(redis: Redis, tmp_path: Path) -> None:
    with Served(tmp_path, redis.url, LIMITED % "max_connections = 1") as served:
        site = Site(served.port, ORDERS)
        assert site.acquire("busy").status == 200
        found: list[Answered] = []
        thread = Thread(target=lambda: found.append(site.acquire("busy", wait=2)))
        thread.start()
        time.sleep(0.5)
        refused = site.acquire("another")
        assert refused.status == 429
        assert "max_connections" in refused.body["message"]
        thread.join(10)
        assert found[0].status == 202
        assert site.acquire("another").status == 200


def test_rights_that_are_taken_away_end_a_wait(redis: Redis, tmp_path: Path) -> None:
    with Served(tmp_path, redis.url, CONFIG) as served:
        orders, ops = Site(served.port, ORDERS), Site(served.port, OPS)
        assert orders.acquire("orders/wait").status == 200
        found: list[Answered] = []
        thread = Thread(target=lambda: found.append(orders.acquire("orders/wait", wait=60)))
        thread.start()
        wait_until(lambda: len(ops.who("orders/wait")) == 2, "it waits")
        served.reload(CONFIG.replace('claim = ["orders/", "shared"]', 'claim = ["shared"]'))
        thread.join(10)
        assert found[0].status == 403
        wait_until(lambda: len(ops.who("orders/wait")) == 1, "it has left the queue")


def test_a_handle_is_no_right(redis: Redis, tmp_path: Path) -> None:
    """Who may not claim a lock any more can neither renew it nor have it signed, only release."""
    written(tmp_path / "signing.pem", new_pem())
    text = f'signing_key_file = "signing.pem"\n{CONFIG}'
    with Served(tmp_path, redis.url, text) as served:
        orders = Site(served.port, ORDERS)
        handle = orders.acquire("orders/handle").body["handle"]
        sign = {"handle": handle, "audience": "resource"}
        assert orders.post("/v1/sign", sign).status == 200
        served.reload(text.replace('claim = ["orders/", "shared"]', 'claim = ["shared"]'))
        for path, body in (
            ("/v1/sign", sign),
            ("/v1/renew", {"handle": handle}),
            ("/v1/acquire", {"handle": handle}),
        ):
            refused = orders.post(path, body)
            assert refused.status == 403, path
            assert "'orders' may not claim the lock 'orders/handle'" in refused.body["message"]
        assert orders.release(handle)


def test_a_token_is_accepted_until_it_expires(redis: Redis, tmp_path: Path) -> None:
    (tmp_path / "jwks.json").write_text(json.dumps({"keys": PUBLIC}), "utf-8")
    with Served(tmp_path, redis.url, TOKENS) as served:
        short = Site(served.port, token(exp=time.time() + 2))
        handle = short.acquire("orders/token").body["handle"]
        began = time.monotonic()
        assert short.acquire("orders/token", wait=60).status == 202
        assert time.monotonic() - began < 5  # a wait ends with its token
        wait_until(lambda: short.get("/v1/guarantees").status == 401, "it has expired")
        assert short.post("/v1/release", {"handle": handle}).status == 401
        assert Site(served.port, token()).release(handle)
        foreign = Site(served.port, token(aud="another"))
        assert foreign.get("/v1/guarantees").status == 401


def test_a_certificate_is_not_believed_on_an_address(served: Served) -> None:
    site = Site(served.port)
    assert site.get("/v1/locks", X_Client="CN=ops").status == 401


def test_what_happens_is_in_the_audit_log(redis: Redis, tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    text = CONFIG.replace("[keys]", f'audit_file = "{log}"\n\n[keys]', 1)
    with Served(tmp_path, redis.url, text) as served:
        orders, ops = Site(served.port, ORDERS), Site(served.port, OPS)
        first = orders.acquire("orders/log").body
        orders.release(first["handle"])
        orders.acquire("orders/log")
        (shown,) = ops.who("orders/log")
        reason = {"name": "orders/log", "id": shown["id"], "reason": "it hung"}
        assert ops.post("/v1/break", reason).body["broken"]
        orders.acquire("x")

        def events() -> list[tuple[str, str]]:
            lines = log.read_text("utf-8").splitlines() if log.exists() else []
            return [(line["event"], line["subject"]) for line in map(json.loads, lines)]

        wait_until(lambda: ("denied", "orders") in events(), "all is logged")
        assert events() == [
            ("granted", "orders"),
            ("released", "orders"),
            ("granted", "orders"),
            ("broken", "ops"),
            ("reason", "ops"),
            ("denied", "orders"),
        ]
        assert ORDERS not in log.read_text("utf-8")
        assert stored("orders", ORDERS).rpartition('"')[0][-20:] not in log.read_text("utf-8")


def test_a_claim_that_comes_again_with_a_shorter_ttl_is_counted_on(
    redis: Redis, tmp_path: Path
) -> None:
    with Served(tmp_path, redis.url, LIMITED % "max_claims = 1") as served:
        site = Site(served.port, ORDERS)
        assert site.acquire("again 1", ttl=60.0, key="k").status == 200
        assert site.acquire("again 1", ttl=0.5, key="k").status == 200
        time.sleep(2.5)
        assert site.acquire("again 2", ttl=60.0).status == 403


def test_a_key_that_is_named_like_a_subject_is_not_that_subject(
    redis: Redis, tmp_path: Path
) -> None:
    text = CONFIG.replace("[subjects.orders]", '[subjects.orders]\nkeys = ["ops"]').replace(
        "[subjects.ops]", '[subjects.ops]\nkeys = ["nothing"]'
    )
    with Served(tmp_path, redis.url, text) as served:
        owner, named = Site(served.port, OPS), Site(served.port, ORDERS)
        handle = owner.acquire("orders/like").body["handle"]
        assert named.post("/v1/release", {"handle": handle}).status == 403
        assert named.acquire("orders/like 2").status == 403
        assert owner.release(handle)


@pytest.mark.parametrize("cursor", ['[0,"x",[1]]', "[" * 4_000, "[-1,%220%22,null]", "x"])
def test_a_forged_cursor_is_malformed(served: Served, cursor: str) -> None:
    answer = Site(served.port, OPS).get(f"/v1/locks?prefix=orders/&cursor={cursor}")
    assert answer.status == 400


def test_asking_for_the_time_with_the_id_of_a_lock_does_not_uncount_it(
    redis: Redis, tmp_path: Path
) -> None:
    with (
        Served(tmp_path, redis.url, LIMITED % "max_claims = 1") as served,
        served.voice(bearer(ORDERS)) as voice,
    ):
        held = voice.new("one")
        assert voice.claim(held).results[0] is not None
        for late in (None, (voice.now or 0.0) - 100.0):
            held.not_after = late
            voice.call(Claim(0, 2.0, [held]))
            (fault,) = voice.claim(voice.new("two")).faults
            assert "max_claims" in fault.why
