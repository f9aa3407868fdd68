"""A slot of a Redis Cluster that moves to another primary, with the keys in it."""

from typing import ClassVar

from tests.robustness.faults.fault import Damage, Fault, Order, Stage, told
from tests.robustness.sites import ClusterSite
from tests.servers.process import ServerError
from tests.servers.resp import ReplyError


class MoveSlot(Fault):
    """Half of a slot's keys are there and half here, for a while; then the rest goes too.

    Clients are sent after what has moved, and told to come again for a name of which only a part
    has. A failover in the middle of it loses what was on the way.
    """

    kind = "move-slot"
    breaks: ClassVar[frozenset[str]] = frozenset({"data"})

    def begin(self, stage: Stage, order: Order) -> Damage:
        """Move the slot of some key of the leader's."""
        site = stage.site
        if not isinstance(site, ClusterSite):
            raise ServerError(f"{site.name} has no slots")
        try:
            source = site.leader()
            key = source.command("RANDOMKEY")
            if not isinstance(key, bytes):
                raise ServerError(f"{told(source)} has no keys")
            move = site.cluster.begin_move(site.cluster.slot_of(key))
            keys = move.keys()
            order.rng.shuffle(keys)
            move.move_keys(*keys[::2])
        except ReplyError as error:
            site.repair()
            raise ServerError(f"the slot does not move: {error}") from error

        def undo() -> None:
            try:
                move.finish()
            except (OSError, ReplyError, ServerError):
                site.repair()

        return Damage(f"slot {move.slot} moves from {told(source)} to {told(move.target)}", undo)
