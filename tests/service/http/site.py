"""A client of the HTTP API that checks each answer against the document, and replicas for it."""

from __future__ import annotations

import http.client
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

from jsonschema import Draft202012Validator

from lockfast.service.http.openapi import document
from lockfast.service.http.routes import OPENAPI
from tests.servers import Replica

SOON = 10.0
Json = dict[str, Any]


class Answered(NamedTuple):
    """An answer."""

    status: int
    headers: http.client.HTTPMessage
    body: Json


class Site:
    """The API at an address. `keep`: whether one connection is used for all requests."""

    def __init__(self, port: int, key: str = "", *, keep: bool = False) -> None:
        self.port = port
        self.key = key
        self._keep = keep
        self._line: http.client.HTTPConnection | None = None

    def ask(
        self, method: str, path: str, body: object = None, timeout: float = SOON, **headers: str
    ) -> Answered:
        """Send a request, and return the answer. The document allows it."""
        line = self._line or http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        if self._keep:
            self._line = line
        if self.key:
            headers.setdefault("Authorization", f"Bearer {self.key}")
        content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            line.request(method, path, content, fields)
            reply = line.getresponse()
            answer = Answered(reply.status, reply.headers, json.loads(reply.read()))
        finally:
            if not self._keep:
                line.close()
        check(method, path, answer)
        return answer

    def post(self, path: str, body: object = None, **more: Any) -> Answered:  # noqa: ANN401
        """Send a POST."""
        return self.ask("POST", path, body, **more)

    def get(self, path: str, **more: Any) -> Answered:  # noqa: ANN401
        """Send a GET."""
        return self.ask("GET", path, **more)

    def acquire(self, name: str, *, ttl: float = 30.0, key: str = "", **more: Any) -> Answered:  # noqa: ANN401
        """Ask for a lock. `key`: its Idempotency-Key."""
        headers = {"Idempotency_Key": key} if key else {}
        return self.post("/v1/acquire", {"name": name, "ttl": ttl, **more}, **headers)

    def go_on(self, handle: str, wait: float = 0.0) -> Answered:
        """Go on waiting."""
        return self.post("/v1/acquire", {"handle": handle, "wait": wait})

    def renew(self, *handles: str) -> list[Json]:
        """Renew, and return what became of each."""
        answer = self.post("/v1/renew", {"handles": list(handles)})
        assert answer.status == 200
        results: list[Json] = answer.body["results"]
        return results

    def release(self, handle: str) -> bool:
        """Release, and return whether it was there."""
        answer = self.post("/v1/release", {"handle": handle})
        assert answer.status == 200
        held: bool = answer.body["held"]
        return held

    def who(self, name: str) -> list[Json]:
        """Return the holders and waiters of a lock."""
        found: list[Json] = self.get(f"/v1/locks?name={name}").body["locks"]
        return sorted(found, key=lambda each: int(each["ticket"]))


@cache
def described() -> Json:
    """Return the document."""
    found: Json = json.loads(document())
    return found


def check(method: str, path: str, answer: Answered) -> None:
    """Check that the document allows an answer."""
    path = path.partition("?")[0]
    operation = described()["paths"].get(path, {}).get(method.lower())
    if operation is None:
        assert path == OPENAPI or answer.status >= 400
        return
    reply = operation["responses"][str(answer.status)]
    content = reply["content"]["application/json"]
    if answer.status >= 400:
        assert all(name in answer.headers for name in reply.get("headers", ()))
    schema = {**content["schema"], "components": described()["components"]}
    assert answer.headers["content-type"] == "application/json"
    Draft202012Validator(schema).validate(answer.body)


class Configured(Replica):
    """A replica with a configuration file."""

    def configure(self, text: str) -> None:
        """Write the file, whose port and host are those of the replica."""
        self._config.write_text(f'host = "{self.host}"\nport = {self.port}\n{text}', "utf-8")

    def argv(self) -> list[str]:
        """Tell the command line."""
        command = [sys.executable, "-P", "-m", "lockfast.cli", "serve"]
        return [*command, "--config", str(self._config)]

    @property
    def site(self) -> Site:
        """The API."""
        return Site(self.port)


@contextmanager
def replica(engine: str, text: str = "") -> Iterator[Configured]:
    """Run a replica with this configuration."""
    found = Configured(engine)
    found.configure(text)
    with found:
        yield found
