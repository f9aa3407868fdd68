"""One Redis: without persistence, and with a file that is synced before every reply."""

import shutil
from collections.abc import Mapping
from typing import ClassVar

from tests.robustness.sites.site import COMMON, PASSWORD, PROXIED, USER, Site
from tests.servers.clock import ServerClock
from tests.servers.process import Server
from tests.servers.redis import Redis


def emptied(server: Server) -> None:
    """Remove what a Redis has stored."""
    if isinstance(server, Redis):
        shutil.rmtree(server.data_path)
        server.data_path.mkdir()


def named(server: Redis) -> str:
    """Tell which Redis, or which Valkey, a server says that it is."""
    said = server.info("server")
    valkey = said.get("valkey_version")
    return f"Valkey {valkey}" if valkey else f"Redis {said['redis_version']}"


class RedisSite(Site):
    """One Redis that keeps nothing: whoever kills it empties it."""

    name = "redis"
    engine = "redis"
    kinds: ClassVar[tuple[str, ...]] = (
        *COMMON,
        *PROXIED,
        "duplicate",
        "restart-empty",
        "clock-server",
        "clock-ahead",
    )
    loses: ClassVar[frozenset[str]] = frozenset({"kill-server"})
    appendonly: ClassVar[bool] = False
    config: ClassVar[Mapping[str, str]] = {}

    @property
    def url(self) -> str:
        """The address of the proxy."""
        return self.redis.url.replace(self.redis.address, self.proxies[0].address)

    def version(self) -> str:
        """Ask it."""
        return named(self.redis)

    def leader(self) -> Redis:
        """Tell the only one."""
        return self.redis

    def wipe(self, server: Server) -> None:
        """Remove the file of what was written."""
        emptied(server)

    def serves(self) -> bool:
        """Ask it."""
        return self.redis.alive and self.redis.is_ready()

    def _build(self) -> None:
        files = self.certificates
        self.redis = Redis(
            username=USER if files else None,
            password=PASSWORD if files else None,
            tls=files or False,
            appendonly=self.appendonly,
            config=self.config,
            env=ServerClock().env,
            home=self.network.host(),
        )
        self.servers.append(self.redis)
        self.redis.start()
        self._front([self.redis], [self.redis.port])


class SavingRedisSite(RedisSite):
    """One Redis that has synced whatever it has acknowledged."""

    name = "redis-aof"
    kinds = (*RedisSite.kinds, "slow-fsync")
    loses: ClassVar[frozenset[str]] = frozenset()
    appendonly = True
    config: ClassVar[Mapping[str, str]] = {"appendfsync": "always"}
