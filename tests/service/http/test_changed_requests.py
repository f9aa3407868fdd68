"""Changed requests to a real replica in front of Redis: each answer is one that the document
describes, nothing of another client is in it, and the other client keeps its locks.

CI sends the same requests each time. `make wide` sends many more, and others each time.
"""

from __future__ import annotations

import http.client
import json
import re
import socket
import time
from collections.abc import Iterator
from contextlib import closing
from io import BytesIO
from itertools import zip_longest
from pathlib import Path
from random import Random
from typing import NamedTuple
from urllib.parse import unquote

import h11
import pytest
from jsonschema import Draft202012Validator

import lockfast
from lockfast.service.app import PAGES
from lockfast.service.figures import OTHER
from lockfast.service.http.routes import OPENAPI
from lockfast.service.keys import new_key, stored
from lockfast.service.signing import JWKS
from tests.servers import Redis
from tests.service.http.changes import HELD, PREFIX, Changes
from tests.service.http.site import Answered, Site, check, described
from tests.service.served import Served
from tests.service.signing_keys import new_pem
from tests.service.signing_keys import written as key_file

SOON = 75.0  # seconds: a changed `wait` may be a valid one
EXAMPLES, WIDE = 3_000, 60_000
PURPOSE = "what the victim does"
EVER = {200, 202, 400, 401, 403, 404, 405, 408, 409, 410, 413, 426, 503}
"""Statuses. A 500 or 502 would be an error of ours that a client can cause."""
KEYS = {"fuzz": new_key(), "victim": new_key()}
CONFIG = f"""
signing_key_file = "signing.pem"
[keys]
{stored("fuzz", KEYS["fuzz"])}
{stored("victim", KEYS["victim"])}

[subjects.fuzz]
claim = ["{PREFIX}"]
inspect = ["{PREFIX}"]
break = ["{PREFIX}"]

[subjects.victim]
claim = ["v/"]
inspect = ["v/"]
"""

FINAL = re.compile(rb"^HTTP/1.1 [2-5].*?\r\n\r\n", re.DOTALL | re.MULTILINE)
PROBLEM = Draft202012Validator(described()["components"]["schemas"]["Problem"])


class Victim:
    """Another client, by HTTP and by WebSocket."""

    def __init__(self, served: Served) -> None:
        self.site = Site(served.port, KEYS["victim"])
        self.held = self.site.acquire("v/held", ttl=600.0, purpose=PURPOSE).body
        url = f"lockfast://:{KEYS['victim']}@127.0.0.1:{served.port}"
        self.client = lockfast.connect(url)
        self.lease = self.client.lock("v/socket", ttl=5.0, purpose=PURPOSE).acquire()

    def is_unharmed(self) -> bool:
        """Return whether it has both locks, and can get another one."""
        self.lease.ensure_held()
        (state,) = self.site.renew(self.held["handle"])
        another = self.site.acquire("v/another").body["handle"]
        return (state["state"], state["token"]) == ("held", self.held["token"]) and (
            self.site.release(another)
        )


class Scene(NamedTuple):
    """A replica and its clients."""

    served: Served
    victim: Victim
    handles: list[str]
    """Handles of the client that sends changed requests, and one of the victim."""
    secrets: list[bytes]
    """What no answer to that client may contain."""


@pytest.fixture(scope="module")
def scene(redis: Redis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder: Path = tmp_path_factory.mktemp("changed")
    key_file(folder / "signing.pem", new_pem())
    with Served(folder, redis.url, CONFIG) as served:
        victim = Victim(served)
        site = Site(served.port, KEYS["fuzz"])
        held = [site.acquire(PREFIX + name, ttl=600.0).body["handle"] for name in HELD]
        released = site.acquire(f"{PREFIX}released").body["handle"]
        site.release(released)
        with closing(victim.client):
            stolen = victim.held["handle"]
            texts = (PURPOSE, stolen, victim.held["ticket"], *KEYS.values())
            secrets = [text.encode() for text in texts]
            yield Scene(served, victim, [*held, released, stolen], secrets)
            victim.lease.release()


def requests(raw: bytes) -> tuple[list[h11.Request], bool]:
    """Return the requests that a server can read in these bytes, and whether it has to answer."""
    server = h11.Connection(h11.SERVER)
    server.receive_data(raw)
    found: list[h11.Request] = []
    ended = False
    while True:
        try:
            event = server.next_event()
        except h11.RemoteProtocolError:
            return found, True
        if isinstance(event, h11.Request):
            found.append(event)
        elif isinstance(event, h11.EndOfMessage):
            ended = True
            server.send(h11.Response(status_code=200, headers=[("content-length", "0")]))
            server.send(h11.EndOfMessage())
            if (server.our_state, server.their_state) != (h11.DONE, h11.DONE):
                return found, ended
            server.start_next_cycle()
        elif not isinstance(event, h11.Data):  # it needs more, or the connection ends
            return found, ended


def has_answer(found: bytes) -> bool:
    """Return whether a whole answer has come. `100 Continue` is none."""
    head = FINAL.search(found)
    if head is None:
        return False
    length = re.search(rb"content-length: (\d+)", head[0], re.IGNORECASE)
    return length is None or len(found) - head.end() >= int(length[1])


def told(port: int, raw: bytes, *, waits: bool) -> tuple[bytes, bool]:
    """Send bytes, and return all that comes back, and whether that is all that was sent. `waits`:
    whether there must be an answer.
    """
    found = b""
    with socket.create_connection(("127.0.0.1", port), timeout=SOON) as sock:
        try:
            sock.sendall(raw)
            while waits and not has_answer(found) and (piece := sock.recv(65_536)):
                found += piece
            sock.shutdown(socket.SHUT_WR)
            while piece := sock.recv(65_536):
                found += piece
        except TimeoutError:
            raise
        except OSError:  # the server has not read everything
            return found, False
    return found, True


def answers(found: bytes, methods: list[str]) -> Iterator[Answered]:
    """Return the answers to requests with these methods."""
    stream = BytesIO(found)
    while line := stream.readline():
        status = int(line.split()[1])
        headers = http.client.parse_headers(stream)
        if status < 200:
            continue
        method = methods.pop(0) if methods else ""
        length = 0 if method == "HEAD" else int(headers["content-length"])
        content = stream.read(length)
        assert len(content) == length
        is_json = length > 0 and headers["content-type"] == "application/json"
        yield Answered(status, headers, json.loads(content) if is_json else {})


def check_answer(request: h11.Request | None, answer: Answered) -> None:
    """Check that the document allows an answer. Without a request, what came was not HTTP."""
    assert answer.status in EVER, answer
    if request is None:
        assert answer.status == 400
        PROBLEM.validate(answer.body)
        return
    method = request.method.decode()
    path = unquote(request.target.partition(b"?")[0].decode())
    if method.isupper() and method.lower() in described()["paths"].get(path, {}):
        check(method, path, answer)
    elif answer.status != 200 and path.startswith("/v1/") and method != "HEAD":
        PROBLEM.validate(answer.body)


def bear(scene: Scene, raw: bytes) -> None:
    """Send changed requests, and check what comes back."""
    sent, waits = requests(raw)
    found, whole = told(scene.served.port, raw, waits=waits)
    for secret in scene.secrets:
        assert secret not in found
    if not whole:
        return
    got = list(answers(found, [each.method.decode() for each in sent]))
    assert got or not waits, "no answer"
    for request, answer in zip_longest(sent[: len(got)], got):
        check_answer(request, answer)


def search(scene: Scene, seeds: range) -> None:
    """Send a changed request for each seed, and check what is left behind at the end."""
    for number in seeds:
        raw = Changes(Random(number), scene.handles, KEYS["fuzz"]).request()  # noqa: S311  # as it says
        try:
            bear(scene, raw)
        except Exception as error:
            error.add_note(f"seed {number}: {raw[:2_000]!r}")
            raise


def all_is_well(scene: Scene) -> None:
    """Check what is left behind."""
    assert scene.victim.is_unharmed()
    site = Site(scene.served.port, KEYS["fuzz"])
    assert site.release(site.acquire(f"{PREFIX}afterwards").body["handle"])
    assert scene.served.program.process.poll() is None
    shown = set(re.findall('http_route="(.*?)"', scene.served.metrics(KEYS["fuzz"])))
    assert shown <= {*described()["paths"], OPENAPI, JWKS, *PAGES, OTHER}  # and no others
    log = scene.served.program.stderr
    assert not re.search("Traceback|rror", log), log


def test_changed_requests_are_answered_as_the_document_says(scene: Scene) -> None:
    search(scene, range(EXAMPLES))
    all_is_well(scene)


@pytest.mark.wide
@pytest.mark.timeout(3_600)
def test_many_more_changed_requests(scene: Scene) -> None:
    first = time.time_ns() // 1_000
    search(scene, range(first, first + WIDE))
    all_is_well(scene)
