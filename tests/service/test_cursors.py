"""Cursors come from clients, and a client may send any."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import lockfast
from lockfast.engines import postgres
from lockfast.engines.remote import messages
from lockfast.engines.remote.identity import Identity
from lockfast.engines.remote.threads import ThreadTransport
from lockfast.engines.remote.url import address_of
from lockfast.errors import EngineRefused
from lockfast.runtime.base import now
from lockfast.runtime.drive import drive
from lockfast.runtime.threads import Threads
from lockfast.url import parse
from tests.servers import EtcdCluster, Postgres, Redis, Replica

BAD = ["", "x", "-1", "[]", "[[1], 2, 3]", '[0, "0", 5]', '[0, 0, {"a": 1}]', "9" * 300, "\x00"]


@pytest.fixture(params=["sqlite", "postgres", "etcd"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/locks.db"
    elif request.param == "postgres":
        with Postgres() as server:
            postgres.install(server.url)
            yield server.url
    else:
        with EtcdCluster() as cluster:
            yield cluster.url


def test_a_cursor_cannot_lead_out_of_the_prefix(url: str) -> None:
    """The next cursor would tell names, and on etcd any keys, that are not to be seen."""
    secret = b"a secret".hex()
    with Replica(url) as replica:
        transport = ThreadTransport(address_of(parse(replica.url)), Identity(), Threads())
        for cursor in ("00", f"{secret} in 0", f"{secret} 0 0", " in 0", " 0 0"):
            request = messages.Inspect(0, "public ", cursor)
            with pytest.raises(EngineRefused, match="not one that this service has returned"):
                drive(transport.call(request, now() + 5.0, messages.Page))
        drive(transport.close())


def test_a_cursor_shows_no_names_outside_the_prefix_and_breaks_nothing() -> None:
    with Redis() as server, Replica(server.url) as replica, lockfast.connect(server.url) as client:
        transport = ThreadTransport(address_of(parse(replica.url)), Identity(), Threads())

        def page(cursor: str) -> messages.Page:
            request = messages.Inspect(0, "public ", cursor)
            return drive(transport.call(request, now() + 5.0, messages.Page))

        with client.lock("secret"), client.lock("public 1"):
            forged = page('[0, "0", ["secret", "public 1"]]')
            assert [entry.name for entry in forged.entries] == ["public 1"]
            for cursor in BAD:
                try:
                    found = page(cursor)
                except EngineRefused:
                    continue
                assert {entry.name for entry in found.entries} <= {"public 1"}, cursor
            assert transport.line is not None
            assert transport.line.usable
        drive(transport.close())
