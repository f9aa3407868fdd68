"""A storm of signals: a client is interrupted again and again, wherever it is."""

import contextlib
import os
import signal
import threading

from tests.robustness.faults.fault import Damage, Fault, Order, Stage, chosen, told
from tests.servers.process import ServerError

_PAUSE = 0.002  # seconds between two


class SignalStorm(Fault):
    """Hundreds of signals a second, whose handler collects garbage: finalizers run anywhere."""

    kind = "signal-storm"

    def begin(self, stage: Stage, order: Order) -> Damage:
        """Interrupt one client that has set its handler, until this is undone."""
        worker = chosen(order.rng, [each for each in stage.workers if each.is_ready()])
        pid, over = worker.pid, threading.Event()

        def storm() -> None:
            # Not a later process: this one is known, and a dead one has no such signal to die of.
            with contextlib.suppress(ServerError, ProcessLookupError):
                while not over.wait(_PAUSE) and worker.alive and worker.pid == pid:
                    os.kill(pid, signal.SIGUSR1)

        thread = threading.Thread(target=storm, daemon=True)
        thread.start()

        def undo() -> None:
            over.set()
            thread.join()

        return Damage(f"interrupts {told(worker)}", undo)
