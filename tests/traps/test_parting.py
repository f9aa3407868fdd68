"""How a client parts from its engine: by close(), and when its program ends."""

from __future__ import annotations

import logging
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Sequence

import pytest

import lockfast
from lockfast.port import Ask
from tests.servers import Proxy, Redis
from tests.traps.wire import via


def test_close_releases_although_a_connection_died_while_it_was_idle(
    server: Redis, connect: Callable[[str], lockfast.Client], client: lockfast.Client
) -> None:
    mine = connect(server.url)
    lease = mine.lock("x", ttl=30.0).acquire()
    server.command("CLIENT", "KILL", "TYPE", "normal")
    mine.close()
    assert lease.state is lockfast.State.RELEASED
    assert client.lock("x").holders() == []


@pytest.mark.parametrize("several", [False, True], ids=["one", "several"])
def test_a_lease_whose_time_runs_out_while_it_is_released_was_not_lost(
    connect: Callable[[str], lockfast.Client], monkeypatch: pytest.MonkeyPatch, *, several: bool
) -> None:
    client = connect("memory://parting")
    client.lock("warm").acquire().release()
    engine, now = client._session.engine, client._session.runtime.now
    table = client._session.table

    async def slow(asks: Sequence[Ask], _: float, *, doubt: bool) -> list[bool]:
        """Answer when they have expired: by then the engine has dropped them by itself."""
        assert not doubt
        for each in asks:
            claim = table.get(each.id)
            assert claim is not None
            claim.until = now()
        return [False for _ in asks]

    monkeypatch.setattr(engine, "resign", slow)
    with client.lock_all("x", "y") if several else client.lock("x"):
        pass
    monkeypatch.undo()


def test_a_program_that_ends_releases_although_its_connections_died(
    server: Redis, client: lockfast.Client
) -> None:
    code = f"""
        import lockfast, sys
        client = lockfast.connect({server.url!r})
        lease = client.lock("x", ttl=30.0).acquire()
        print("ready", flush=True)
        sys.stdin.readline()
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        program.stdout.readline()
        server.command("CLIENT", "KILL", "TYPE", "normal")
        program.stdin.close()
        assert program.wait(10.0) == 0
    assert client.lock("x").holders() == []


def test_close_tells_what_it_could_not_release(
    proxy: Proxy, connect: Callable[[str], lockfast.Client], caplog: pytest.LogCaptureFixture
) -> None:
    mine = connect(via(proxy))
    mine.lock("warm", ttl=30.0).acquire().release()
    kept = mine.lock("invoice:42", ttl=30.0).acquire()
    proxy.cut()
    began = time.monotonic()
    with caplog.at_level(logging.WARNING, "lockfast"):
        mine.close()
    assert time.monotonic() - began < 3.0
    assert f"'invoice:42' (token {kept.token}) may stay taken" in caplog.text


def test_clients_whose_server_is_gone_do_not_add_up_when_a_program_ends(server: Redis) -> None:
    with Proxy(server.host, server.port) as proxy:
        code = f"""
            import lockfast, sys
            clients = [lockfast.connect({via(proxy)!r}) for _ in range(4)]
            leases = [c.lock(str(n), ttl=30.0).acquire() for n, c in enumerate(clients)]
            print("ready", flush=True)
            sys.stdin.readline()
        """
        with subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(code)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as program:
            assert program.stdin is not None
            assert program.stdout is not None
            assert program.stderr is not None
            program.stdout.readline()
            proxy.cut()
            began = time.monotonic()
            program.stdin.close()
            assert program.wait(20.0) == 0
            assert time.monotonic() - began < 4.0
            assert program.stderr.read().count("may stay taken") == 4
