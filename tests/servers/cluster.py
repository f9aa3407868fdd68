"""A Redis Cluster: three primaries that share the slots, and the moving of a slot."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Self

from tests.servers.group import Group
from tests.servers.node import rows, text
from tests.servers.process import (
    Home,
    ServerError,
    address_of,
    free_port,
    program,
    run,
    spread,
    wait_until,
)
from tests.servers.redis import Redis

_PRIMARIES = 3
_NODE_TIMEOUT = 1000
_ALL = 1_000_000


def _node(home: Home | None, env: Mapping[str, str] | None = None) -> Redis:
    config = {
        "cluster-enabled": "yes",
        "cluster-node-timeout": str(_NODE_TIMEOUT),
        "cluster-announce-ip": address_of(home),
        # By default it is 10000 higher, where another may listen.
        "cluster-port": str(free_port()),
        # A replica may follow its primary however long it has not heard of it.
        "cluster-replica-validity-factor": "0",
    }
    return Redis(config=config, env=env, home=home)


class SlotMove:
    """The move of one slot, half done: the source answers ASK for keys it has not any more."""

    def __init__(self, cluster: "Cluster", slot: int, source: Redis, target: Redis) -> None:
        self.slot = slot
        self.source = source
        self.target = target
        self._cluster = cluster
        cluster.wait_agreed()
        # The target first: the source must not send clients to one that would send them back.
        target.command("CLUSTER", "SETSLOT", slot, "IMPORTING", cluster.id_of(source))
        source.command("CLUSTER", "SETSLOT", slot, "MIGRATING", cluster.id_of(target))

    def keys(self) -> list[bytes]:
        """Tell the slot's keys that are still at the source."""
        reply = self.source.command("CLUSTER", "GETKEYSINSLOT", self.slot, _ALL)
        return [key for key in rows(reply) if isinstance(key, bytes)]

    def move_keys(self, *keys: bytes | str) -> None:
        """Move these keys; a command on moved and unmoved keys then meets TRYAGAIN."""
        if keys:
            head = ("MIGRATE", self.target.host, self.target.port, "", 0, 5000)
            self.source.command(*head, "KEYS", *keys)

    def finish(self) -> None:
        """Move the keys that are left, and the slot itself: the source answers MOVED."""
        self.move_keys(*self.keys())
        for node in [self.target, self.source, *self._cluster.primaries()]:
            node.command("CLUSTER", "SETSLOT", self.slot, "NODE", self._cluster.id_of(self.target))
        self._cluster.wait_agreed()

    def cancel(self) -> None:
        """Leave the slot where it was; only right while no key has moved."""
        for node in (self.source, self.target):
            node.command("CLUSTER", "SETSLOT", self.slot, "STABLE")


class Cluster(Group):
    """Three primaries, with replicas if asked for. `with` starts them and makes them a cluster."""

    def __init__(
        self,
        *,
        env: Mapping[str, str] | None = None,
        odd: Mapping[str, str] | None = None,
        replicas: int = 0,
        homes: Sequence[Home] | None = None,
    ) -> None:
        """Write the configurations. `env` is the environment of the nodes, `odd` that of the last
        one if it differs, and `replicas` the number of replicas of each primary.
        """
        self._replicas = replicas
        places = spread(homes, _PRIMARIES * (1 + replicas))
        last = _node(places[-1], env if odd is None else odd)
        self.nodes = [*(_node(home, env) for home in places[:-1]), last]

    @property
    def url(self) -> str:
        """The address for a client."""
        return "redis+cluster://" + ",".join(node.address for node in self.nodes)

    def start(self) -> Self:
        """Start the nodes, join them, and wait until each finds the cluster in order."""
        for node in self.nodes:
            node.start()
        addresses = [node.address for node in self.nodes]
        how = ("--cluster-replicas", str(self._replicas), "--cluster-yes")
        run(program("redis-cli"), "--cluster", "create", *addresses, *how)
        self.wait_ok()
        return self

    def wait_ok(self, timeout: float = 20.0) -> None:
        """Wait until every running node says cluster_state:ok."""
        for node in self.nodes:
            wait_until(
                partial(self._is_ok, node),
                f"cluster_state:ok at {node.address}",
                timeout,
            )

    def wait_agreed(self, timeout: float = 20.0) -> None:
        """Wait until all running nodes say the same of who has which slots, and since when.

        Until then a late word of a former owner may still turn one of them round.
        """
        wait_until(
            lambda: len({self._view(node) for node in self.nodes if node.alive}) == 1,
            "the nodes agree",
            timeout,
        )

    def fix(self) -> None:
        """End the moves of slots that were given up half-way, one way or the other."""
        run(program("redis-cli"), "--cluster", "fix", self._any().address, "--cluster-yes")

    def id_of(self, node: Redis) -> str:
        """Tell a node's id in the cluster."""
        return text(node.command("CLUSTER", "MYID"))

    def slot_of(self, key: bytes | str) -> int:
        """Tell a key's slot."""
        slot = self._any().command("CLUSTER", "KEYSLOT", key)
        if not isinstance(slot, int):
            raise ServerError(f"not a slot: {slot!r}")
        return slot

    def primaries(self) -> list[Redis]:
        """Tell the running nodes that are no replicas."""
        running = (node for node in self.nodes if node.alive)
        return [node for node in running if node.info("replication")["role"] == "master"]

    def owner(self, slot: int) -> Redis:
        """Tell the node that says a slot is its own."""
        return next(node for node in self.nodes if node.alive and self.owns(node, slot))

    def owns(self, node: Redis, slot: int, patience: float = 5.0) -> bool:
        """Tell whether a node says that a slot is its own."""
        # The node's own line is marked "myself" and ends with its ranges of slots; a slot on
        # the move stands in brackets besides.
        with node.connect(patience) as connection:
            said = text(connection.command("CLUSTER", "NODES"))
        for line in said.splitlines():
            fields = line.split()
            if "myself" in fields[2].split(","):
                ranges = [field for field in fields[8:] if not field.startswith("[")]
                ends = [(part.split("-")[0], part.split("-")[-1]) for part in ranges]
                return any(int(first) <= slot <= int(last) for first, last in ends)
        return False

    def begin_move(self, slot: int, target: Redis | None = None) -> SlotMove:
        """Begin to move a slot, to the target or any other node; finish() it later."""
        source = self.owner(slot)
        others = (node for node in self.primaries() if node is not source)
        return SlotMove(self, slot, source, target or next(others))

    def move_slot(self, slot: int, target: Redis | None = None) -> Redis:
        """Move a slot with its keys and return its new owner."""
        move = self.begin_move(slot, target)
        move.finish()
        return move.target

    def close(self) -> None:
        """End the nodes."""
        for node in self.nodes:
            node.kill()
            node.close()

    def _any(self) -> Redis:
        return next(node for node in self.nodes if node.alive)

    def _is_ok(self, node: Redis) -> bool:
        return not node.alive or self.in_order(node)

    def in_order(self, node: Redis) -> bool:
        """Tell whether a node finds the cluster complete, and itself in step if it is a replica."""
        lines = text(node.command("CLUSTER", "INFO")).splitlines()
        complete = {"cluster_state:ok", f"cluster_known_nodes:{len(self.nodes)}"} <= set(lines)
        return complete and (node.info("replication")["role"] == "master" or node.is_linked())

    @staticmethod
    def _view(node: Redis) -> frozenset[tuple[str, ...]]:
        """Tell, for each node, its id, its epoch and its slots; a slot on the move is left out."""
        lines = text(node.command("CLUSTER", "NODES")).splitlines()
        return frozenset(
            (fields[0], fields[6], *(each for each in fields[8:] if not each.startswith("[")))
            for fields in map(str.split, lines)
        )
