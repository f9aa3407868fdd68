"""The name of a client, if its engine has one: the ids of all its claims begin with it."""

from __future__ import annotations

import asyncio
import os
import secrets
import sys

import pytest

import lockfast
from lockfast import aio
from lockfast.aio import AsyncClient
from lockfast.blocking.client import Client
from lockfast.claims.ids import Ids
from lockfast.claims.session import Session
from lockfast.engines.batching import Batching
from lockfast.engines.memory import Memory, MemoryEngine
from lockfast.port import CLIENT, PORT
from lockfast.runtime.aio import Aio
from lockfast.runtime.drive import drive
from lockfast.runtime.threads import Threads
from lockfast.testing import Actor
from lockfast.testing.harness.faults import Shaky
from lockfast.url import Target
from tests.contract.benches import MemoryBench


class Named(MemoryEngine):
    """An engine of one client, whose name nobody chooses."""

    port = PORT

    def __init__(self, target: Target | None, runtime: Threads | Aio) -> None:
        del target
        super().__init__(Memory(), runtime.bell())
        self.client = secrets.token_hex(CLIENT // 2)
        self.heard: list[str] = []

    def hear(self, client: str, *, on: bool) -> None:
        self.heard.append(client)
        super().hear(client, on=on)


class BatchedNamed(Named):
    """The same, which wants batches."""

    batch = 8


def name_of(client: Client | AsyncClient) -> str:
    engine = client._session.engine
    assert isinstance(engine, (Named, Batching))
    return str(engine.client)


@pytest.mark.parametrize("engine", [Named, BatchedNamed])
def test_ids_begin_with_the_engines_name(engine: type[Named]) -> None:
    with lockfast.connect(engine=engine) as client:
        ids = [client.lock(name).acquire().id for name in "abc"]
        assert {each[:CLIENT] for each in ids} == {name_of(client)}
        assert len(set(ids)) == 3


def test_ids_begin_with_the_engines_name_in_asyncio() -> None:
    async def main() -> None:
        async with aio.connect(engine=Named) as client:
            lease = await client.lock("x").acquire()
            assert lease.id[:CLIENT] == name_of(client)

    asyncio.run(main())


def test_the_client_hears_its_own_wakes() -> None:
    with lockfast.connect(engine=Named) as client:
        client.lock("x").acquire()
        engine = client._session.engine
        assert isinstance(engine, Named)
        assert engine.heard == [engine.client]


def test_an_engine_without_a_name_lets_its_client_choose() -> None:
    names = set()
    for _ in range(2):
        with lockfast.connect("memory://") as client:
            names.add(client.lock("x").acquire().id[:CLIENT])
    assert len(names) == 2


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
def test_a_forked_child_has_another_name() -> None:
    with lockfast.connect(engine=Named) as client:
        mine = client.lock("x").acquire().id[:CLIENT]
        reads, writes = os.pipe()
        child = os.fork()
        if not child:
            told = b"failed"
            try:
                lease = client.lock("y").acquire()
                told = f"{lease.id[:CLIENT]} {name_of(client)}".encode()
            finally:
                os.write(writes, told)
                os._exit(0)
        os.close(writes)
        with os.fdopen(reads, "rb") as pipe:
            ids, engine = pipe.read().decode().split()
        os.waitpid(child, 0)
        assert ids == engine
        assert ids != mine
        assert client.lock("z").acquire().id[:CLIENT] == mine


def test_a_second_engine_that_is_discarded_changes_no_name() -> None:
    """A signal handler can open the engine while the session opens it."""
    runtime, made = Threads(), list[Named]()
    ids, made_by = list[str](), list[Ids]()

    def opened() -> Named:
        engine = Named(None, runtime)
        made.append(engine)
        if len(made) == 1:
            ids.append(client.lock("by the handler").acquire().id)
            made_by.append(session._ids)
        return engine

    session = Session(opened, runtime)
    with Client(session) as client:
        ids.append(client.lock("x").acquire().id)
        assert {each[:CLIENT] for each in ids} == {made[1].client}
        assert len(made) == 2
        assert session._ids is made_by[0], "two sources with one name could make one id twice"


def test_what_stands_before_an_engine_in_tests_has_its_name() -> None:
    engine, nameless = Named(None, Threads()), MemoryEngine(Memory(), Threads().bell())
    way = Shaky().to(engine)
    assert way.client == engine.client
    assert Actor(way, MemoryBench()).ask().id[:CLIENT] == engine.client
    assert not hasattr(Shaky().to(nameless), "client")
    for each in (engine, nameless):
        drive(each.close())


def test_after_a_start_that_was_interrupted_the_ids_are_those_of_the_engine_in_use() -> None:
    """Ctrl-C can end a start between the engine and its ids. The next start opens another one."""
    runtime = Threads()
    session, engine = Session(lambda: Named(None, runtime), runtime), Named(None, runtime)
    session.__dict__["engine"] = engine
    with Client(session) as client:
        assert client.lock("x").acquire().id[:CLIENT] == engine.client
