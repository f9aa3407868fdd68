"""Replicas that do not answer any more, and hosts that never did: a short lease must be kept."""

from __future__ import annotations

import asyncio
import socket
import time
from contextlib import suppress

import pytest

from lockfast.engines.memory import Memory
from lockfast.engines.remote import messages
from lockfast.engines.remote.aio import AioLine, AioTransport
from lockfast.engines.remote.identity import Identity
from lockfast.engines.remote.threads import ThreadTransport
from lockfast.engines.remote.transport import DOUBT, FRESH
from lockfast.engines.remote.url import address_of
from lockfast.errors import EngineUnavailable
from lockfast.runtime.aio import Aio
from lockfast.runtime.base import now
from lockfast.runtime.drive import drive
from lockfast.runtime.threads import Threads
from lockfast.url import parse
from tests.servers import Proxy
from tests.servers.service import Service
from tests.service.peers import Held


def transport_to(*hosts: str) -> ThreadTransport:
    """Return a transport that tries these hosts in this order."""
    address = address_of(parse(f"lockfast://{','.join(hosts)}"))
    transport = ThreadTransport(address, Identity(), Threads())
    transport._places = list(address.places)
    return transport


def ask(transport: ThreadTransport, seconds: float) -> None:
    """Send a request that a replica answers at once."""
    drive(transport.call(messages.Promise(0, seconds), now() + seconds, messages.Promised))


def test_a_host_that_accepts_connections_and_stays_silent_costs_half_a_second() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        Service(lambda _: Held().made) as service,
    ):
        host, port = silent.getsockname()
        transport = transport_to(f"{host}:{port}", service.url.removeprefix("lockfast://"))
        began = time.monotonic()
        ask(transport, 5.0)
        assert 0.4 < time.monotonic() - began < 1.5
        drive(transport.close())


def test_a_short_request_without_an_answer_is_followed_by_another_connection() -> None:
    """Half a second is too little to tell that a replica is gone, and a renewal of a lease of two
    seconds waits for less. So a ping follows it, and decides.
    """
    memory = Memory()
    made = lambda _: Held(memory).made  # noqa: E731
    with Service(made) as cut, Service(made) as other:
        host, port = cut.url.removeprefix("lockfast://").split(":")
        with Proxy(host, int(port)) as proxy:
            transport = transport_to(proxy.address, other.url.removeprefix("lockfast://"))
            ask(transport, 5.0)
            line = transport.line
            proxy.cut()
            with pytest.raises(EngineUnavailable, match="no answer in time"):
                ask(transport, 0.3)
            assert transport.line is line
            time.sleep(0.3)
            ask(transport, 1.0)
            assert transport.line is not line
            drive(transport.close())


def test_a_replica_that_is_slow_once_is_not_left() -> None:
    with Service(lambda _: Held().made) as service:
        host, port = service.url.removeprefix("lockfast://").split(":")
        with Proxy(host, int(port)) as proxy:
            transport = transport_to(proxy.address)
            ask(transport, 5.0)
            line = transport.line
            proxy.delay(0.2)
            with pytest.raises(EngineUnavailable, match="no answer in time"):
                ask(transport, 0.1)
            time.sleep(0.5)
            ask(transport, 2.0)
            assert transport.line is line
            drive(transport.close())


def test_a_replica_that_greets_slowly_is_given_more_time_after_each_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A whole fleet that connects at once makes it slow. Attempts of the same short time would all
    fail, again and again.
    """
    monkeypatch.setattr("lockfast.engines.remote.transport.IO", 0.5)
    with Service(lambda _: Held().made) as service:
        host, port = service.url.removeprefix("lockfast://").split(":")
        with Proxy(host, int(port)) as proxy:
            proxy.delay(0.4)  # the handshake and the greeting are a request each
            transport = transport_to(proxy.address)
            until = now() + 15.0
            while transport.line is None and now() < until:
                with suppress(EngineUnavailable):
                    ask(transport, 5.0)
            assert transport.line is not None
            assert transport.line.welcome is not None
            drive(transport.close())


def test_a_greeting_that_a_busy_event_loop_reads_too_late_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The attempt's time is over in the same turn of the loop in which it reads the greeting."""
    greet = AioLine._greet

    def greet_and_block(self: AioLine) -> None:
        greet(self)
        loop = asyncio.get_running_loop()
        loop.call_soon(loop.call_soon, time.sleep, 1.0)  # after the greeting was written

    monkeypatch.setattr(AioLine, "_greet", greet_and_block)

    async def connect(url: str) -> bool:
        address = address_of(parse(url))
        transport = AioTransport(address, Identity(), Aio())
        line = await transport._dial(address.places[0], now() + 0.9)
        line.shut()
        await asyncio.sleep(0.1)
        return line.welcome is not None

    with Service(lambda _: Held().made) as service:
        assert asyncio.run(connect(service.url))


def test_an_answer_that_is_late_once_does_not_end_an_idle_connection() -> None:
    """A client, or a replica, that serves thousands may stand still for a second. A client that
    left its replica for that would connect again, and be busier than before.
    """
    with Service(lambda _: Held().made) as service:
        host, port = service.url.removeprefix("lockfast://").split(":")
        with Proxy(host, int(port)) as proxy:
            transport = transport_to(proxy.address)
            ask(transport, 5.0)
            line = transport.line
            time.sleep(FRESH + 0.1)
            proxy.delay(DOUBT + 0.2)
            ask(transport, 5.0)
            assert transport.line is line
            assert line is not None
            assert line.error is None
            drive(transport.close())


def test_a_replica_whose_engine_is_slow_is_not_left() -> None:
    """It is silent for as long, unless somebody asks it for a sign of life. If its whole fleet left
    it for that, the storm would go on to the next replicas.
    """
    held = Held()
    with Service(lambda _: held.made) as service:
        transport = transport_to(service.url.removeprefix("lockfast://"))
        ask(transport, 5.0)
        line = transport.line
        held.holding.add("inspect")
        seconds = DOUBT + 0.3
        with pytest.raises(EngineUnavailable, match="no answer in time"):
            drive(transport.call(messages.Inspect(0, "a", None), now() + seconds, messages.Page))
        time.sleep(0.5)
        ask(transport, 5.0)
        assert transport.line is line
        held.loop.call_soon_threadsafe(held.let_go)
        drive(transport.close())
