"""The dashboard as a part of the service: its users are those of the service."""

from __future__ import annotations

import base64
import http.client
import re
import time
from collections.abc import Iterator
from contextlib import closing
from html import unescape
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode

import pytest

import lockfast
from lockfast.service.keys import new_key, stored
from tests.servers import Redis, wait_until
from tests.service.served import SOON, Headers, Served, bearer
from tests.service.test_audit import until

VIEWER, OPS, ORDERS = new_key(), new_key(), new_key()
KEYS = "\n".join(["[keys]", stored("viewer", VIEWER), stored("ops", OPS), stored("orders", ORDERS)])
CONFIG = f"""
web = true
audit_file = "audit.jsonl"
{KEYS}

[subjects.viewer]
inspect = [""]

[subjects.ops]
inspect = [""]
break = ["orders/"]

[subjects.orders]
claim = [""]
inspect = ["orders/"]
"""


class Got(NamedTuple):
    """An answer."""

    status: int
    headers: dict[str, str]
    text: str


@pytest.fixture(scope="module")
def redis() -> Iterator[Redis]:
    with Redis() as found:
        yield found


@pytest.fixture(scope="module")
def served(redis: Redis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("served"), redis.url, CONFIG) as found:
        yield found


def password(key: str, user: str = "me") -> Headers:
    """Return the header with which a browser sends a password."""
    return [("Authorization", "Basic " + base64.b64encode(f"{user}:{key}".encode()).decode())]


def send(
    served: Served, path: str, headers: Headers = (), form: dict[str, str] | None = None
) -> Got:
    """Send a request, as a browser does."""
    with closing(http.client.HTTPConnection("127.0.0.1", served.port, timeout=SOON)) as line:
        fields = dict(headers)
        body = None
        if form is not None:
            body = urlencode(form)
            fields |= {
                "Content-Type": "application/x-www-form-urlencoded",
                "Origin": fields.get("Origin", f"http://127.0.0.1:{served.port}"),
            }
        line.request("GET" if form is None else "POST", path, body, fields)
        answer = line.getresponse()
        found = {name.lower(): value for name, value in answer.getheaders()}
        return Got(answer.status, found, answer.read().decode())


def broken(served: Served, name: str, key: str, reason: str) -> Got:
    """Break a lock, as a browser does: with the form that it was shown."""
    links: list[str] = []

    def is_shown() -> bool:
        shown = send(served, "/web/lock?" + urlencode({"name": name}), password(key))
        links[:] = re.findall(r'href="([^"]*/break\?[^"]*)"', shown.text)
        return bool(links)

    wait_until(is_shown, "a scan has seen the lock")
    asked = send(served, unescape(links[0]), password(key))
    assert asked.status == 200
    (action,) = re.findall(r'<form[^>]* action="([^"]*)"', asked.text)
    form = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', asked.text))
    cookie = [("Cookie", asked.headers["set-cookie"].partition(";")[0])]
    return send(served, unescape(action), [*password(key), *cookie], {**form, "reason": reason})


def test_without_the_option_there_is_no_dashboard(redis: Redis, tmp_path: Path) -> None:
    with Served(tmp_path, redis.url, KEYS) as found:
        assert send(found, "/web/", password(OPS)).status == 404
        assert send(found, "/web/", bearer(OPS)).status == 404


@pytest.mark.parametrize(
    "path", ["/web", "/web/", "/web/waits", "/web/static/lockfast.css", "/web/x"]
)
def test_a_stranger_is_asked_for_a_password(served: Served, path: str) -> None:
    for headers in ([], password(new_key()), password("x" * 9), [("Authorization", "Basic \xff")]):
        got = send(served, path, headers)
        assert got.status == 401
        assert got.headers["www-authenticate"].startswith("Basic ")


def test_an_api_key_is_the_password(served: Served) -> None:
    for headers in (password(VIEWER), password(VIEWER, "somebody"), bearer(VIEWER)):
        assert send(served, "/web/", headers).status == 200
    assert send(served, "/web/", password(VIEWER, "a:b")).status == 401  # a name has no colon


def test_a_password_counts_for_the_dashboard_only(served: Served) -> None:
    """A browser adds it to requests that pages of other sites send to the API."""
    assert send(served, "/v1/locks", password(OPS)).status == 401
    assert send(served, "/metrics", password(OPS)).status == 401
    assert send(served, "/website", password(OPS)).status == 404


def test_who_may_not_list_all_locks_may_not_look(served: Served) -> None:
    got = send(served, "/web/", password(ORDERS))
    assert got.status == 403
    assert "'orders' may not inspect all locks" in got.text


def test_a_page_of_another_site_is_refused(served: Served) -> None:
    for origin in ("http://example.com", "null", "http://127.0.0.1:1", "http://[::1"):
        got = send(served, "/web/break", [*password(OPS), ("Origin", origin)], {"name": "x"})
        assert got.status == 403


def test_a_lock_is_broken_by_a_subject(served: Served) -> None:
    url = f"lockfast://:{ORDERS}@127.0.0.1:{served.port}"
    path = served.folder / "audit.jsonl"
    with lockfast.connect(url) as client:
        lease = client.lock("orders/1", ttl=2.0).acquire()
        got = broken(served, "orders/1", OPS, "incident 4711")
        assert got.status == 303
        with pytest.raises(lockfast.LeaseLost, match="incident 4711"):
            _until_lost(lease)
        assert lease.loss is not None
    granted, deed, reason = until(path, "orders/1", "granted", "broken", "reason", "lost")[:3]
    assert (granted["subject"], deed["subject"], reason["reason"]) == (
        "orders",
        "ops",
        "incident 4711",
    )
    assert deed["token"] == granted["token"]


def _until_lost(lease: lockfast.Lease) -> None:
    end = time.monotonic() + SOON
    while time.monotonic() < end:
        lease.ensure_held()
        time.sleep(0.05)


@pytest.mark.parametrize(("who", "name"), [("viewer", "orders/2"), ("ops", "others")])
def test_a_lock_is_not_broken_without_the_right(served: Served, who: str, name: str) -> None:
    key = {"viewer": VIEWER, "ops": OPS}[who]
    url = f"lockfast://:{ORDERS}@127.0.0.1:{served.port}"
    with lockfast.connect(url) as client, client.lock(name) as lease:
        (holder,) = client.lock("orders/2").holders() if name == "orders/2" else [None]
        shown = send(served, "/web/lock?" + urlencode({"name": name}), password(key))
        assert shown.status == 200
        assert "/break" not in shown.text
        id_ = "0" * 32 if holder is None else holder.id
        asked = send(served, "/web/break?" + urlencode({"name": name, "id": id_}), password(key))
        assert asked.status == 403
        form = {"reason": "x", "token": "0" * 64}
        where = "/web/break?" + urlencode({"name": name, "id": id_})
        assert send(served, where, password(key), form).status == 403
        lease.ensure_held()


def test_a_key_that_is_removed_may_not_look_any_more(redis: Redis, tmp_path: Path) -> None:
    with Served(tmp_path, redis.url, f"web = true\n{KEYS}") as found:
        assert send(found, "/web/", password(VIEWER)).status == 200
        found.reload(f"web = true\n[keys]\n{stored('ops', OPS)}")
        assert send(found, "/web/", password(VIEWER)).status == 401
        assert send(found, "/web/", password(OPS)).status == 200


def test_requests_of_the_dashboard_count(redis: Redis, tmp_path: Path) -> None:
    config = f'web = true\n{KEYS}\n[subjects.viewer]\ninspect = [""]\nmax_requests = 1\n'
    with Served(tmp_path, redis.url, config) as found:
        answers = [send(found, "/web/", password(VIEWER)) for _ in range(5)]
        assert 429 in [each.status for each in answers]
        late = next(each for each in answers if each.status == 429)
        assert int(late.headers["retry-after"]) >= 1


def test_without_keys_a_browser_on_this_machine_may_look_only(redis: Redis, tmp_path: Path) -> None:
    with Served(tmp_path, redis.url, "web = true\n") as found:
        assert send(found, "/web/").status == 200
        assert send(found, "/web/", [("Host", "example.com")]).status == 403
        assert send(found, "/web/", [("X-Forwarded-For", "10.0.0.1")]).status == 403
        assert send(found, "/web/break?name=x&id=y").status == 403
