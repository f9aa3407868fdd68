"""What the trap tests share: a real Redis, a proxy in front of it, and clients that get closed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

import lockfast
from tests.servers import Proxy, Redis
from tests.traps.holder import Holder
from tests.traps.modes import Client, Loop


@pytest.fixture(scope="module")
def shared_server() -> Iterator[Redis]:
    """One server per module. It knows the scripts already, so that a reply which a test loses is
    that of the script, and not a NOSCRIPT.
    """
    with Redis() as server:
        with lockfast.connect(server.url) as client, client.lock("warm", ttl=30):
            pass
        yield server


@pytest.fixture
def server(shared_server: Redis) -> Redis:
    """A Redis with nothing in it."""
    shared_server.command("FLUSHALL")
    return shared_server


@pytest.fixture
def proxy(server: Redis) -> Iterator[Proxy]:
    """A proxy in front of the server, with no fault yet. `via(proxy)` is its URL."""
    with Proxy(server.host, server.port) as proxy:
        yield proxy


@pytest.fixture
def stack(proxy: Proxy) -> Iterator[ExitStack]:
    """What is closed at the end of a test, across a network that is whole again."""
    with ExitStack() as stack:
        yield stack
        proxy.heal()
        proxy.release_requests()


@pytest.fixture
def connect(stack: ExitStack) -> Callable[[str], lockfast.Client]:
    """Make blocking clients, which are closed at the end."""
    return lambda url: stack.enter_context(lockfast.connect(url))


@pytest.fixture
def client(server: Redis, connect: Callable[[str], lockfast.Client]) -> lockfast.Client:
    """A blocking client straight to the server: often "the other one" of a test."""
    return connect(server.url)


@pytest.fixture(params=["threads", "asyncio"])
def either(
    request: pytest.FixtureRequest, stack: ExitStack, connect: Callable[[str], lockfast.Client]
) -> Callable[[str], Client]:
    """Make clients of one mode, and run the test once for each. Both are used as a blocking
    client is; an asyncio client lives in a loop of its own, in another thread.
    """
    if request.param == "threads":
        return connect
    loop = stack.enter_context(Loop())
    return lambda url: stack.enter_context(loop.connect(url))


@pytest.fixture
def hold(stack: ExitStack, server: Redis) -> Callable[..., Holder]:
    """Start processes that hold a lock: `hold(name, ttl)`. They are killed at the end."""

    def start(name: str, ttl: float, *, url: str = server.url, aio: bool = False) -> Holder:
        return stack.enter_context(Holder(url, name, ttl, aio=aio))

    return start
