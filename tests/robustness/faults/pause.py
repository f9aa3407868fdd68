"""Pauses: a process stands still, and its sockets stay open."""

import contextlib
from collections.abc import Sequence
from typing import ClassVar

from tests.robustness.faults.fault import Damage, Fault, Order, Stage, chosen, told
from tests.servers.process import Server, ServerError


class PauseClient(Fault):
    """A client stands still, as in a long collection of garbage."""

    kind = "pause-client"
    breaks: ClassVar[frozenset[str]] = frozenset({"pause"})

    def begin(self, stage: Stage, order: Order) -> Damage:
        """Pause one."""
        return _pause(stage.workers, order)


class PauseServer(Fault):
    """A server stands still; what was sent to it is carried out when it goes on."""

    kind = "pause-server"
    breaks: ClassVar[frozenset[str]] = frozenset()

    def begin(self, stage: Stage, order: Order) -> Damage:
        """Pause the leader on every other turn, else anyone."""
        leader = order.turn % 2 == 0
        return _pause([stage.site.leader()] if leader else stage.site.servers, order)


def _pause(servers: Sequence[Server], order: Order) -> Damage:
    server = chosen(order.rng, servers)
    server.pause()

    def undo() -> None:
        # Another fault may have killed it meanwhile.
        with contextlib.suppress(ServerError, ProcessLookupError):
            server.resume()

    return Damage(f"paused {told(server)}", undo)
