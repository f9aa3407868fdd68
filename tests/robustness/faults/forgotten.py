"""Connections that are dead, and nobody was told: new ones work."""

from abc import abstractmethod
from pathlib import Path

from tests.robustness.faults.fault import Damage, Fault, Order, Stage, chosen, told
from tests.robustness.hosts import host_of
from tests.servers.process import Server, ServerError

_ESTABLISHED = "01"
_FIELDS = 4


class _Forgotten(Fault):
    """Something between a client and the site forgets the connections that are open now."""

    @property
    @abstractmethod
    def reset(self) -> bool:
        """Whether the client is told so when it uses one."""

    def begin(self, stage: Stage, order: Order) -> Damage:
        """Forget those of one client; on every other turn, of a replica to its engine."""
        site = stage.site
        replica = site.service and order.turn % 2
        worker = chosen(order.rng, site.service if replica else stage.workers)
        ports = _ports(worker)
        if not ports:
            raise ServerError(f"{worker.name} has no connection")
        targets = site.addresses if replica else site.entrances
        undo = host_of(worker).forget(ports, targets, reset=self.reset)
        return Damage(f"forgot {len(ports)} connections of {told(worker)}", undo)


class NatForgets(_Forgotten):
    """A NAT has forgotten them: what is sent on them is dropped, both ways, without a word."""

    kind = "nat-forgets"
    reset = False


class IdleDied(_Forgotten):
    """A firewall has ended them: the client learns it when it uses one, the server never does."""

    kind = "idle-died"
    reset = True


def _ports(worker: Server) -> list[int]:
    """Tell the ports from which connections go out on the host of a process."""
    rows = [
        line.split()[:_FIELDS]
        for table in ("tcp", "tcp6")  # gRPC's sockets are of the latter, whatever they carry
        for line in Path(f"/proc/{worker.pid}/net/{table}").read_text("ascii").splitlines()[1:]
    ]
    return [int(near.split(":")[1], 16) for _, near, _, state in rows if state == _ESTABLISHED]
