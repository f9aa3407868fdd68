"""The guard over HTTP, with real servers: uvicorn and wsgiref."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

import lockfast
from lockfast import Loss, StaleToken
from lockfast.guards.http import HEADER, Door, header
from lockfast.guards.http.httpx import Fencing
from lockfast.guards.mark import Shown
from lockfast.runtime.drive import drive
from lockfast.runtime.threads import Threads
from tests.guards.holders import reader, two_holders, writer
from tests.guards.resources.http import AsyncHttpRegister, HttpRegister
from tests.guards.story import Resource, corrupted, refused
from tests.servers import Asgi, HttpServer, Redis, Wsgi, wait_until

A, B = "a" * 32, "b" * 32


def make(kind: str, **env: str) -> HttpServer:
    if kind == "asgi":
        return Asgi("tests.guards.apps.asgi:app", env)
    return Wsgi("tests.guards.apps.wsgi", env)


@pytest.fixture(scope="module", params=["asgi", "wsgi"])
def server(request: pytest.FixtureRequest) -> Iterator[HttpServer]:
    with (
        tempfile.TemporaryDirectory() as data,
        make(request.param, DATA=data, PATIENCE="0.5") as server,
    ):
        yield server


@pytest.fixture(scope="module")
def http() -> Iterator[httpx.Client]:
    with httpx.Client(trust_env=False, timeout=20) as client:
        yield client


@pytest.fixture(params=["kept", "own"])
def url(request: pytest.FixtureRequest, server: HttpServer, name: str) -> str:
    """A guarded resource: checked by the middleware, or by the handler."""
    return f"{server.url}/{request.param}/{name}"


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A resource of its own for each test."""
    return f"n{abs(hash(request.node.name))}"


# --- both servers, both forms -------------------------------------------------------------------


def test_a_stale_request_is_refused_and_the_lease_is_lost(
    url: str, name: str, http: httpx.Client
) -> None:
    with two_holders(name) as (stale, fresh):
        http.put(url, content="first", auth=Fencing(stale)).raise_for_status()
        http.put(url, content="second", auth=Fencing(fresh)).raise_for_status()
        with pytest.raises(StaleToken, match=f"already seen token {fresh.token}"):
            http.put(url, content="third", auth=Fencing(stale))
        assert http.get(url).text == "second"
        assert stale.loss is Loss.FENCED
        fresh.ensure_held()
        http.put(url, content="fourth", auth=Fencing(fresh)).raise_for_status()


def test_a_read_that_shows_the_token_is_a_seal(url: str, name: str, http: httpx.Client) -> None:
    http.put(url, content="10", auth=Fencing(writer(6, name=name)))
    assert http.get(url, auth=Fencing(writer(7, name=name))).text == "10"
    with pytest.raises(StaleToken):
        http.put(url, content="15", auth=Fencing(writer(6, name=name)))
    assert http.get(url).text == "10"


def test_two_equal_tokens_of_two_claims_the_first_shown_stands(
    url: str, name: str, http: httpx.Client
) -> None:
    http.put(url, content="a", auth=Fencing(writer(7, A, name)))
    with pytest.raises(StaleToken):
        http.put(url, content="b", auth=Fencing(writer(7, B, name)))


def test_a_refusal_is_problem_details_with_both_tokens_as_strings(
    url: str, name: str, http: httpx.Client
) -> None:
    http.put(url, auth=Fencing(writer(2**53 - 1, name=name)))
    response = http.put(url, headers={HEADER: header(writer(2**53 - 2, name=name))})
    assert response.status_code == 412
    assert response.headers["content-type"] == "application/problem+json"
    said = response.json()
    assert (said["type"], said["name"]) == ("urn:lockfast:stale-token", name)
    assert (said["token"], said["current"]) == (str(2**53 - 2), str(2**53 - 1))


def test_a_write_without_a_token_is_asked_for_one_and_a_read_is_not(
    url: str, name: str, http: httpx.Client
) -> None:
    http.put(url, content="v", auth=Fencing(writer(7, name=name)))
    response = http.put(url, content="w")
    assert response.status_code == 428
    assert response.json()["type"] == "urn:lockfast:token-required"
    assert http.get(url).text == "v"


@pytest.mark.parametrize("line", ['"7"', "{}, {}", "other"])
def test_a_token_that_cannot_be_read_or_is_of_another_lock_is_a_bad_request(
    url: str, name: str, http: httpx.Client, line: str
) -> None:
    right = header(writer(7, name=name))
    wrong = header(writer(7, name="other")) if line == "other" else line.format(right, right)
    response = http.put(url, content="v", headers={HEADER: wrong})
    assert response.status_code == 400
    assert response.json()["type"] == "urn:lockfast:token-malformed"


def test_readers_pass_side_by_side_and_never_raise_the_mark_above_the_floor(
    url: str, name: str, http: httpx.Client
) -> None:
    with lockfast.connect(f"memory://{name}") as engine:
        first, second = reader(engine, name), reader(engine, name)
        http.put(url, content="v", auth=Fencing(writer(1, name=name))).raise_for_status()
        for each in (second, first):
            assert http.get(url, auth=Fencing(each)).text == "v"
        with pytest.raises(StaleToken):
            http.put(url, auth=Fencing(writer(first.ticket - 1, name=name)))


# --- the check in front of the write ------------------------------------------------------------


@contextmanager
def parked(server: HttpServer, http: httpx.Client, url: str, at: Shown) -> Iterator[Future[str]]:
    """Have a request that passed the check, and waits in the handler before its write."""
    with ThreadPoolExecutor(1) as pool:
        before = int(http.get(f"{server.url}/parked").text)
        request = pool.submit(
            lambda: http.put(f"{url}?park", content="stale", auth=Fencing(at)).text
        )
        try:
            wait_until(
                lambda: int(http.get(f"{server.url}/parked").text) > before, "the handler waits"
            )
            yield request
        finally:
            http.post(f"{server.url}/go")


def test_a_new_holder_waits_for_the_stale_request_that_is_still_running(
    server: HttpServer, http: httpx.Client, name: str
) -> None:
    url = f"{server.url}/kept/{name}"
    fresh = Fencing(writer(7, name=name))
    with parked(server, http, url, writer(6, name=name)):
        response = http.put(url, content="fresh", auth=fresh)
        assert response.status_code == 503  # so long: its patience is half a second
        assert response.headers["retry-after"] == "1"
        with pytest.raises(StaleToken):  # but the mark is raised: no further stale one gets in
            http.put(url, content="stale", auth=Fencing(writer(6, name=name)))
    wait_until(lambda: http.put(url, content="fresh", auth=fresh).is_success, "drained")
    assert http.get(url).text == "fresh"


def test_a_new_holder_goes_on_as_soon_as_the_stale_request_has_ended(
    server: HttpServer, http: httpx.Client, name: str
) -> None:
    url = f"{server.url}/kept/{name}"
    fresh = Fencing(writer(7, name=name))

    def write() -> None:
        wait_until(lambda: http.put(url, content="fresh", auth=fresh).is_success, "drained")

    with ThreadPoolExecutor(1) as pool:
        with parked(server, http, url, writer(6, name=name)) as stale:
            writing = pool.submit(write)
        assert stale.result() == "stale"
        writing.result()
    assert http.get(url).text == "fresh"


def test_a_check_by_the_handlers_own_guard_needs_no_waiting(
    server: HttpServer, http: httpx.Client, name: str
) -> None:
    url = f"{server.url}/own/{name}"
    with parked(server, http, url, writer(6, name=name)) as stale:
        http.put(url, content="fresh", auth=Fencing(writer(7, name=name))).raise_for_status()
    with pytest.raises(StaleToken):
        stale.result()
    assert http.get(url).text == "fresh"


def test_a_handler_that_fails_lets_the_next_holder_in(
    url: str, name: str, http: httpx.Client
) -> None:
    assert http.put(url, content="fail", auth=Fencing(writer(6, name=name))).status_code == 500
    http.put(url, content="fresh", auth=Fencing(writer(7, name=name))).raise_for_status()


def test_who_waits_at_the_door_goes_in_when_the_last_stale_one_has_left(name: str) -> None:
    door = Door(lambda *_: name, marks={})
    threads = Threads()
    drive(door.enter(writer(6, name=name), threads))
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(lambda: drive(door.enter(writer(7, name=name), threads)))
        wait_until(lambda: bool(door._waiting), "it waits")
        assert not waiting.done()
        door.leave(writer(6, name=name))
        waiting.result(5)
    door.leave(writer(7, name=name))
    assert not door._inside
    assert not door._waiting


def test_a_waiting_holder_that_was_itself_overtaken_is_refused(name: str) -> None:
    door = Door(lambda *_: name, marks={})
    threads = Threads()
    drive(door.enter(writer(6, name=name), threads))
    with ThreadPoolExecutor(2) as pool:
        waiting = pool.submit(lambda: drive(door.enter(writer(7, name=name), threads)))
        wait_until(lambda: len(door._waiting[name]) == 1, "one waits")
        last = pool.submit(lambda: drive(door.enter(writer(8, name=name), threads)))
        wait_until(lambda: len(door._waiting[name]) == 2, "two wait")
        door.leave(writer(6, name=name))
        with pytest.raises(StaleToken):
            waiting.result(5)
        last.result(5)


def test_marks_in_memory_are_forgotten_by_a_restart_and_marks_in_a_folder_are_not(
    tmp_path: Path, http: httpx.Client
) -> None:
    for env, forgotten in (({}, True), ({"MARKS": str(tmp_path / "marks")}, False)):
        with make("wsgi", **env) as server:
            url = f"{server.url}/kept/x"
            http.put(url, content="fresh", auth=Fencing(writer(7))).raise_for_status()
            server.stop()
            server.start()
            if forgotten:
                http.put(url, content="stale", auth=Fencing(writer(6))).raise_for_status()
            else:
                with pytest.raises(StaleToken):
                    http.put(url, content="stale", auth=Fencing(writer(6)))


# --- the story ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "register"), [("asgi", AsyncHttpRegister), ("wsgi", HttpRegister)]
)
def test_a_holder_that_was_paused_past_its_lease_is_refused(
    kind: str, register: type[Resource]
) -> None:
    with Redis() as engine, make(kind) as server:
        refused(engine.url, register, f"{server.url}/kept/story")


def test_without_the_guard_the_paused_holder_overwrites_its_successor() -> None:
    with Redis() as engine, make("wsgi") as server:
        corrupted(engine.url, HttpRegister, f"{server.url}/bare/story")
