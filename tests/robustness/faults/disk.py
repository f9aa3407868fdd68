"""A slow disk: every sync of a file takes its time."""

from pathlib import Path

from tests.robustness.faults.fault import Damage, Fault, Order, Stage, chosen, told
from tests.servers.process import Server, program

_SLOW = (0.1, 0.5, 1.2)  # shares of the ttl


class Tracer(Server):
    """A strace that delays what another server syncs, for as long as it runs."""

    def __init__(self, server: Server, delay: float) -> None:
        """Watch every process of the server."""
        super().__init__("strace")
        self._pids = server.pids
        self._delay = round(delay * 1_000_000)

    def argv(self) -> list[str]:
        """Tell the command line."""
        calls = "fsync,fdatasync"
        return [
            *(program("strace"), "-f", "-qq", "-o", "/dev/null", "-e", f"trace={calls}"),
            *("-e", f"inject={calls}:delay_enter={self._delay}"),
            *(word for pid in self._pids for word in ("-p", str(pid))),
        ]

    def is_ready(self) -> bool:
        """Tell whether it holds the server."""
        status = Path(f"/proc/{self._pids[0]}/status").read_text(encoding="utf-8")
        return f"TracerPid:\t{self.pid}\n" in status


class SlowFsync(Fault):
    """Every sync of a server takes a part of the ttl, or more than that."""

    kind = "slow-fsync"

    def begin(self, stage: Stage, order: Order) -> Damage:
        """Slow the leader's disk on every other turn, else anyone's."""
        site = stage.site
        leader = order.turn % 2 == 0
        server = chosen(order.rng, [site.leader()] if leader else site.servers)
        delay = _SLOW[order.turn % len(_SLOW)] * stage.ttl
        tracer = Tracer(server, delay)
        try:
            tracer.start()
        except BaseException:
            tracer.close()
            raise
        return Damage(f"{told(server)} syncs in {delay:.2f} s", tracer.close)
