"""A Redlock set: independent redis-servers that know nothing of each other."""

import contextlib
from collections.abc import Sequence
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from lockfast.engines.redlock import install
from tests.servers.clock import ServerClock
from tests.servers.redis import Redis


class RedlockSet:
    """Several nodes, made members of one set. `with` starts them all."""

    def __init__(
        self, nodes: int | Sequence[Redis] = 5, *, clock: ServerClock | None = None
    ) -> None:
        """Take the nodes, or so many plain ones; the clock moves all of them."""
        if isinstance(nodes, int):
            nodes = [Redis(env=clock.env if clock else None) for _ in range(nodes)]
        self.nodes = list(nodes)
        self._stack = contextlib.ExitStack()

    @property
    def url(self) -> str:
        """The address for a client: the hosts of all, the login and the options of the first."""
        return url_of(*self.nodes)

    def __enter__(self) -> Self:
        """Start, and install."""
        with contextlib.ExitStack() as stack:
            for node in self.nodes:
                stack.enter_context(node)
            install(self.url)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close."""
        self._stack.close()


def url_of(*nodes: Redis, addresses: Sequence[str] | None = None) -> str:
    """Name nodes in one URL, or other addresses that lead to them."""
    first = urlsplit(nodes[0].url)
    login, at, _ = first.netloc.rpartition("@")
    hosts = ",".join(addresses or [node.address for node in nodes])
    scheme = first.scheme.replace("redis", "redlock", 1)
    query = f"?{first.query}" if first.query else ""
    return f"{scheme}://{login}{at}{hosts}{query}"
