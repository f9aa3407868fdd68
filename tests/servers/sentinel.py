"""A Sentinel set: a primary, its replicas, and three sentinels that watch over them."""

import contextlib
from collections.abc import Sequence
from functools import partial
from typing import Self
from urllib.parse import quote

from tests.servers.group import Group
from tests.servers.node import Node, quoted, rows, text
from tests.servers.process import Home, ServerError, program, spread, wait_until
from tests.servers.redis import Redis
from tests.servers.resp import Connection, ReplyError

_SENTINELS = 3
_QUORUM = 2
# Sentinel asks for INFO every 10 s and says hello every 2 s; faster, a set is ready at once. The
# ping-period must stay: a replica whose INFO is older than five of them is not promoted, and
# while the primary is down INFO comes once a second whatever the info-period says.
_PERIODS = ("info-period", 200, "publish-period", 100, "ask-period", 100)


class Sentinel(Node):
    """One redis-sentinel that watches one primary."""

    def __init__(
        self,
        name: str,
        primary: Redis,
        *,
        down_after: int,
        failover: int,
        home: Home | None = None,
    ) -> None:
        """Write the configuration; the times are in milliseconds."""
        super().__init__("sentinel", home=home)
        self._config_path = self.folder / "sentinel.conf"
        lines = [
            f"port {self.port}",
            f"bind {self.host}",
            *(() if home is None else ("protected-mode no",)),
            f"dir {quoted(str(self.folder))}",
            f"sentinel monitor {name} {primary.host} {primary.port} {_QUORUM}",
            f"sentinel down-after-milliseconds {name} {down_after}",
            f"sentinel failover-timeout {name} {failover}",
        ]
        if primary.password is not None:
            lines.append(f"sentinel auth-pass {name} {quoted(primary.password)}")
        self._config_path.write_text("\n".join(lines) + "\n", encoding="utf-8")

    def argv(self) -> list[str]:
        """Tell the command line."""
        return [program("redis-sentinel"), str(self._config_path)]

    def connect(self, timeout: float = 5.0) -> Connection:
        """Open a connection."""
        return Connection(self.host, self.port, timeout=timeout)

    def start(self, timeout: float = 10.0) -> Self:
        """Start, and make it look around more often than it would."""
        super().start(timeout)
        self.command("SENTINEL", "DEBUG", *_PERIODS)
        return self


class SentinelSet(Group):
    """A primary, replicas and three sentinels. `with` starts them all."""

    def __init__(  # noqa: PLR0913  # each is one independent option of a set
        self,
        name: str = "lockfast",
        *,
        replicas: int = 1,
        password: str | None = None,
        down_after: int = 700,
        failover_timeout: int = 2000,
        homes: Sequence[Home] | None = None,
    ) -> None:
        """Write the configurations; the times are in milliseconds."""
        self.name = name
        self.password = password
        places = spread(homes, 1 + replicas + _SENTINELS)
        first = Redis(password=password, home=places[0])
        others = [
            Redis(password=password, replica_of=first, home=home) for home in places[1:-_SENTINELS]
        ]
        self.nodes = [first, *others]
        self.sentinels = [
            Sentinel(name, first, down_after=down_after, failover=failover_timeout, home=home)
            for home in places[-_SENTINELS:]
        ]

    @property
    def url(self) -> str:
        """The address for a client: the sentinels', and the name of the primary."""
        login = "" if self.password is None else f":{quote(self.password, safe='')}@"
        hosts = ",".join(sentinel.address for sentinel in self.sentinels)
        return f"redis+sentinel://{login}{hosts}/{self.name}"

    def start(self) -> Self:
        """Start them all, and wait until they know each other and the replicas are in step."""
        for node in self.nodes:
            node.start()
        for replica in self.nodes[1:]:
            replica.wait_linked()
        # Only now, so that a sentinel's first look at the primary shows it the replicas.
        for sentinel in self.sentinels:
            sentinel.start()
        for sentinel in self.sentinels:
            wait_until(partial(self._knows_all, sentinel), f"{sentinel.address} knows the set")
        self.wait_in_step()
        return self

    def primary(self) -> Redis:
        """Tell the present primary, as the sentinels that are up tell it."""
        for sentinel in self.sentinels:
            with contextlib.suppress(OSError):
                return self._primary_by(sentinel)
        raise ServerError("no sentinel answers")

    def replicas(self) -> list[Redis]:
        """Tell the nodes that run and are not the primary."""
        primary = self.primary()
        return [node for node in self.nodes if node.alive and node is not primary]

    def wait_in_step(self, timeout: float = 10.0) -> None:
        """Wait until every running replica has what the primary has written so far."""
        primary = self.primary()
        for replica in self.replicas():
            replica.wait_in_step(primary, timeout)

    def kill_primary(self) -> Redis:
        """Crash the primary and return it; wait_failover tells who follows it."""
        primary = self.primary()
        primary.kill()
        return primary

    def wait_failover(self, old: Redis, timeout: float = 20.0) -> Redis:
        """Wait until every running sentinel names a new primary and that one takes writes."""
        wait_until(lambda: self._is_followed(old), f"a primary follows {old.address}", timeout)
        return self.primary()

    def cut_replica(self) -> list[Redis]:
        """Cut the replicas' links to the primary, so that they lack every later write.

        A wrong password is what keeps them from linking again. A proxy in the link, or another
        REPLICAOF, would be put right by the sentinels, since the replica would name another
        primary than theirs. They do not promote a replica whose link was down for longer than
        ten times down_after before the primary went: write and kill soon after the cut.
        """
        cut = self.replicas()
        for replica in cut:
            replica.command("CONFIG", "SET", "masterauth", "lockfast-cut")
            replica.command("CLIENT", "KILL", "TYPE", "master")
            wait_until(partial(_is_cut, replica), f"the link of {replica.address} is cut")
        return cut

    def heal_replica(self) -> None:
        """Let the running nodes link to the primary again."""
        for node in self.nodes:
            if node.alive:
                node.command("CONFIG", "SET", "masterauth", self.password or "")

    def close(self) -> None:
        """End them all; the sentinels first, lest they start a failover meanwhile."""
        for server in [*self.sentinels, *self.nodes]:
            server.kill()
            server.close()

    def _primary_by(self, sentinel: Sentinel) -> Redis:
        reply = rows(sentinel.command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.name))
        address = ":".join(text(part) for part in reply)
        return next(node for node in self.nodes if node.address == address)

    def _knows_all(self, sentinel: Sentinel) -> bool:
        replicas = rows(sentinel.command("SENTINEL", "REPLICAS", self.name))
        try:
            # It says NOQUORUM until it has seen enough of the others alive.
            sentinel.command("SENTINEL", "CKQUORUM", self.name)
        except ReplyError:
            return False
        others = rows(sentinel.command("SENTINEL", "SENTINELS", self.name))
        return len(replicas) == len(self.nodes) - 1 and len(others) == _SENTINELS - 1

    def _is_followed(self, old: Redis) -> bool:
        named = {self._primary_by(sentinel) for sentinel in self.sentinels if sentinel.alive}
        if len(named) != 1 or old in named:
            return False
        return named.pop().info("replication")["role"] == "master"


def _is_cut(replica: Redis) -> bool:
    return not replica.is_linked()
