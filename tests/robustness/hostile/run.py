"""Run: each engine's real servers, and a replica of the service, behind relays, for so long, with
both kinds of client at once.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import NamedTuple
from urllib.parse import urlsplit

import lockfast
from lockfast import State
from lockfast.engines import mysql as mysql_engine
from lockfast.engines.postgres import install
from tests.robustness.hostile import framing
from tests.robustness.hostile.actors import Part, play
from tests.robustness.hostile.framing import Framing
from tests.robustness.hostile.relay import Relay
from tests.servers import EtcdCluster, MariaDB, Postgres, Redis, RedlockSet, Replica, ZooKeeper

Say = Callable[[str], None]
Told = tuple[dict[str, int], list[str], float, int]
KINDS = ("threads", "asyncio")
PEAK = 1024  # MiB that a process of clients may take
PATIENCE = 90.0  # seconds for a process to come to its end


def _nothing() -> list[str]:
    return []


class Place(NamedTuple):
    """Where an engine is: a URL, and the addresses in it that a relay stands in for."""

    url: str
    addresses: list[str]
    harmed: Callable[[], list[str]] = _nothing
    """Returns what the clients behind the relays have done to others."""


@contextmanager
def redis() -> Iterator[Place]:
    with Redis() as server:
        yield Place(server.url, [server.address])


@contextmanager
def redlock() -> Iterator[Place]:
    with RedlockSet(3) as nodes:
        yield Place(nodes.url, [node.address for node in nodes.nodes])


@contextmanager
def postgres() -> Iterator[Place]:
    with Postgres(config={"fsync": "off"}) as server:
        install(server.url)
        # Without TLS it does not ask for it: the answer to that is no message.
        url = f"{server.url}?sslmode=disable"
        yield Place(url, [urlsplit(server.url).netloc.rpartition("@")[2]])


@contextmanager
def mysql() -> Iterator[Place]:
    with MariaDB(config={"innodb-flush-log-at-trx-commit": "0"}) as server:
        mysql_engine.install(server.url)
        yield Place(server.url, [f"{server.host}:{server.port}"])


@contextmanager
def etcd() -> Iterator[Place]:
    with EtcdCluster() as cluster:
        yield Place(cluster.url, urlsplit(cluster.url).netloc.rpartition("@")[2].split(","))


@contextmanager
def zookeeper() -> Iterator[Place]:
    with ZooKeeper() as server:
        yield Place(server.url, [urlsplit(server.url).netloc.rpartition("@")[2]])


@contextmanager
def service() -> Iterator[Place]:
    """A replica, with a client that holds a lock all the time and is behind no relay."""
    with Redis() as server, Replica(server.url) as replica, lockfast.connect(replica.url) as client:
        lease = client.lock("bystander", ttl=5.0).acquire()

        def harmed() -> list[str]:
            log = replica.log()
            found = [] if lease.state is State.HELD else [f"a bystander lost: {lease.state}"]
            if not (replica.alive and replica.serves()):
                found.append(f"the replica does not serve: {log}")
            if "Traceback" in log:
                found.append(f"the replica has logged a bug: {log}")
            return found

        yield Place(replica.url, [replica.address], harmed)
        lease.release()


class Engine(NamedTuple):
    """What is behind the relays."""

    start: Callable[[], contextlib.AbstractContextManager[Place]]
    framing: Framing
    replies: int
    """That must have passed at least, in a minute."""
    shared: bool = True
    both: bool = False
    """Whether requests are spoiled too: a client may be as hostile as a server."""


ENGINES = {
    "redis": Engine(redis, framing.values, 10_000),
    "redlock": Engine(redlock, framing.values, 2_000, shared=False),
    "postgres": Engine(postgres, framing.messages, 10_000),
    "mysql": Engine(mysql, framing.numbered, 10_000),
    "etcd": Engine(etcd, framing.http2, 2_000),
    "zookeeper": Engine(zookeeper, framing.packets, 2_000),
    "service": Engine(service, framing.websocket, 4_000, both=True),
}


def run(seconds: float, seed: int, say: Say, only: str | None = None) -> int:
    """Run all, one after another; 1 if anything was violated."""
    failed = 0
    for name in [only] if only else ENGINES:
        failed |= _one(name, ENGINES[name], seconds, seed, say)
    return failed


class Player(NamedTuple):
    """A process of clients, and the relays that it goes through."""

    kind: str
    relays: list[Relay]
    pipe: Connection
    process: BaseProcess

    def told(self, seconds: float) -> tuple[int, Told] | None:
        """Wait for its report, and for how many leases it held at the end."""
        try:
            if self.pipe.poll(seconds + PATIENCE):
                self.pipe.recv()
            # The actors have ended: each takes a lock in peace, and then nothing passes any more.
            for relay in self.relays:
                relay.calm = True
            self.pipe.send(None)
            held: int | None = self.pipe.recv() if self.pipe.poll(PATIENCE) else None
            for relay in self.relays:
                relay.silent = True
            self.pipe.send(None)
            if held is None or not self.pipe.poll(PATIENCE):
                return None
            return held, self.pipe.recv()
        except (EOFError, OSError):
            return None
        finally:
            self.process.kill()


def _one(name: str, engine: Engine, seconds: float, seed: int, say: Say) -> int:
    with engine.start() as place, ExitStack() as stack:
        players = [
            _player(engine, place, Part(kind, "", seconds, seed + number, engine.shared), stack)
            for number, kind in enumerate(KINDS)
        ]
        failed = [_judged(f"{name}/{player.kind}", player, seconds, say) for player in players]
        for harm in place.harmed():
            say(f"{name}: VIOLATION {harm}")
            failed.append(True)
        total = sum(relay.replies for player in players for relay in player.relays)
        if total < engine.replies * seconds / 60:
            say(f"{name}: VIOLATION too few replies: {total}")
            failed.append(True)
    return int(any(failed))


def _player(engine: Engine, place: Place, part: Part, stack: ExitStack) -> Player:
    spawn = multiprocessing.get_context("spawn")
    url, relays = place.url, []
    for number, address in enumerate(place.addresses):
        host, _, port = address.rpartition(":")
        seed = part.seed * 100 + number
        relay = Relay(host, int(port), engine.framing, seed, both=engine.both)
        relays.append(stack.enter_context(relay))
        url = url.replace(address, relay.address)
    os.environ["GRPC_VERBOSITY"] = "NONE"  # gRPC tells of every frame that it does not understand
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=play, args=(part._replace(url=url), theirs), daemon=True)
    process.start()
    theirs.close()
    return Player(part.kind, relays, ours, process)


def _judged(name: str, player: Player, seconds: float, say: Say) -> bool:
    """Tell what a player reported; True if a rule was broken."""
    told = player.told(seconds)
    if told is None:
        say(f"{name}: VIOLATION it did not come to its end")
        return True
    held, (ends, violations, latest, peak) = told
    if held == 0:
        violations.append("no lock could be acquired once the replies were whole again")
    if peak > PEAK:
        violations.append(f"{peak} MiB of memory")
    replies = sum(relay.replies for relay in player.relays)
    spoiled = sum(relay.spoiled for relay in player.relays)
    say(
        f"{name}: {replies} replies, {spoiled} of them spoiled; latest call {latest:+.2f} s after "
        f"its deadline; {held} leases at the end; {peak} MiB"
    )
    say("   " + ", ".join(f"{what} {count}" for what, count in sorted(ends.items())))
    for violation in violations:
        say(f"   VIOLATION {violation}")
    return bool(violations)
