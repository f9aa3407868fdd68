"""Every public function says what it takes, returns and raises, and every example runs."""

from __future__ import annotations

import builtins
import inspect
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from enum import Enum
from pathlib import Path

import pytest

import lockfast.aio
from lockfast import errors
from tests.docs.docstrings import ENTRY, Documented, public
from tests.docs.page import complaints
from tests.docs.preludes import program
from tests.docs.test_snippets import DATABASE, LOGIN, PLACES
from tests.servers import Postgres
from tests.servers.process import free_port

PORT = "lockfast.port."  # for authors of engines: its classes describe the whole interface
PUBLIC = {name: each for name, each in public().items() if not name.startswith(PORT)}
CALLED = {name: each for name, each in PUBLIC.items() if inspect.isroutine(each.thing)}
MADE = {"session", "entry", "lock", "make", "election"}
"""Parameters of classes that only lockfast makes. Readers get one from a method."""
BUILT = {
    name: each
    for name, each in PUBLIC.items()
    if name.startswith(("lockfast.guards.", "lockfast.testing.lab."))
    and inspect.isclass(each.thing)
    and not issubclass(each.thing, (tuple, Enum, Exception))
    and not MADE & set(each.parameters)
}
EXAMPLES = {each.example: name for name, each in PUBLIC.items() if each.example}
"""One name for each: both modes show the examples of shared docstrings."""
SHOWING = [
    "lockfast.connect",
    "lockfast.aio.connect",
    *(
        f"lockfast.{kind}"
        for kind in [
            *("Client", "Client.lock", "Client.rlock", "Client.semaphore", "Client.lock_all"),
            *("Client.election", "Client.rwlock", "Lock.acquire", "Lock.try_acquire"),
            *("Lock.__call__", "RWLock.read", "RWLock.write", "RLock.acquire"),
            *("MultiLock.acquire", "Election.campaign", "Election.observe", "Election.run"),
            *("Lease", "aio.AsyncClient", "aio.AsyncLock.__call__", "aio.AsyncLease"),
        ]
    ),
    *(
        f"lockfast.guards.{kind}"
        for kind in [
            *("postgres.PostgresGuard", "postgres.AsyncPostgresGuard", "postgres.Columns"),
            *("postgres.AsyncColumns", "sqlalchemy.transaction", "sqlalchemy.async_transaction"),
            *("mysql.MysqlGuard", "mysql.Columns", "mysql.install", "mysql.protect"),
            *("django.guarded", "django.Fenced", "redis.RedisGuard", "redis.AsyncRedisGuard"),
            *("http.Door", "http.httpx.Fencing", "http.requests.Fencing"),
            *("http.asgi.FencingMiddleware", "http.wsgi.FencingMiddleware"),
            *("objects.ObjectGuard", "objects.AsyncObjectGuard"),
            *("files.FileGuard", "files.AsyncFileGuard"),
        ]
    ),
]
"""Where readers start: these need an example."""


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, str]]:
    """Start each server once, when the first example needs it: what it is called, by its place."""
    with ExitStack() as stack:
        yield _Servers(stack)


class _Servers(dict[str, str]):
    def __init__(self, stack: ExitStack) -> None:
        super().__init__()
        self._stack = stack

    def __missing__(self, place: str) -> str:
        if place == DATABASE:
            postgres = self._stack.enter_context(Postgres())
            postgres.command("CREATE DATABASE app")
            self[place] = str(postgres.port)
        else:
            self[place] = PLACES[place](self._stack)
        return self[place]


@pytest.mark.parametrize("name", CALLED)
def test_a_docstring_describes_each_parameter_and_the_result(name: str) -> None:
    each = CALLED[name]
    assert ENTRY.findall(each.section("Args")) == each.parameters
    result = str(inspect.signature(each.thing).return_annotation)
    if result not in {"None", "NoReturn", "Self"}:
        assert each.section("Returns") or each.section("Yields")


@pytest.mark.parametrize("name", BUILT)
def test_the_docstring_of_a_class_describes_its_constructor(name: str) -> None:
    assert ENTRY.findall(BUILT[name].section("Args")) == BUILT[name].parameters


@pytest.mark.parametrize("name", [name for name in PUBLIC if PUBLIC[name].section("Raises")])
def test_a_docstring_names_exceptions_that_exist(name: str) -> None:
    each = PUBLIC[name]
    own = vars(inspect.getmodule(each.thing))
    for raised in ENTRY.findall(each.section("Raises")):
        kind = getattr(errors, raised, None) or getattr(builtins, raised, None) or own.get(raised)
        assert isinstance(kind, type), raised
        assert issubclass(kind, Exception), raised


@pytest.mark.parametrize("client", [lockfast.Client, lockfast.aio.AsyncClient])
def test_the_reference_lists_each_method_of_a_client(client: type) -> None:
    module = "lockfast" if client is lockfast.Client else "lockfast.aio"
    methods = {name for name, _ in inspect.getmembers(client, inspect.isroutine) if name[0] != "_"}
    assert {f"{module}.{client.__name__}.{name}" for name in methods} <= set(PUBLIC)


@pytest.mark.parametrize("name", SHOWING)
def test_a_docstring_where_readers_start_has_an_example(name: str) -> None:
    assert PUBLIC[name].example


@pytest.mark.parametrize("example", EXAMPLES, ids=EXAMPLES.values())
def test_the_example_of_a_docstring_runs(
    example: str, servers: dict[str, str], tmp_path: Path
) -> None:
    text = program(_module(PUBLIC[EXAMPLES[example]]), example)
    env = {**os.environ, **LOGIN}
    for place in PLACES:
        if place in text:
            text = text.replace(place, servers[place])
    if DATABASE in text or "psycopg://localhost/app" in text:
        env |= {"PGPORT": servers[DATABASE], "PGUSER": "postgres"}
    if "PORT" in text:
        port = str(free_port())
        text = text.replace("PORT", port).replace("localhost:8000", f"localhost:{port}")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", text],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, f"{text}\n{done.stderr}"
    assert not complaints(done.stderr), done.stderr


def _module(each: Documented) -> str:
    """Return the module that a reader of an example has imported from."""
    found: str = each.thing.__module__
    for package in ("lockfast.integrations.", "lockfast.testing.lab", "lockfast.guards."):
        if found.startswith(package):
            return ".".join(found.split(".")[: 4 if "guards.http." in found else 3])
    return "lockfast"
