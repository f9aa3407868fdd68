"""A recorder: appends each record to a client's file at once, so that a killed one has left all."""

from __future__ import annotations

import os
from pathlib import Path

from lockfast.nouns.lease import LeaseCore
from lockfast.port import Shape
from tests.robustness.history import Kind, Outcome, Record, dumped
from tests.robustness.traffic.clock import now


class Recorder:
    """One client's file. Threads may share it: each record is one write to the end."""

    def __init__(self, path: Path, client: str) -> None:
        self.client = client
        self._file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o644)

    def add(self, record: Record) -> None:
        os.write(self._file, (dumped(record) + "\n").encode())

    def close(self) -> None:
        os.close(self._file)

    def refused(self, shapes: list[Shape], began: float, outcome: Outcome, why: str) -> None:
        """Record that nothing was granted, or nobody knows."""
        ended = now()
        for shape in shapes:
            self.add(
                Record(
                    *(self.client, Kind.ACQUIRE, shape.name, began, ended, outcome),
                    weight=shape.weight,
                    capacity=shape.capacity,
                    value=why,
                )
            )

    def holding(
        self, kind: Kind, lease: LeaseCore, began: float, outcome: Outcome = Outcome.OK
    ) -> None:
        """Record something about a lease, and until when it is believed in."""
        ended = now()
        # The lease's clock may be another one, or moved: only a difference can be carried over.
        until = ended + lease.valid_until - lease._now()
        shape = lease.live.shape
        loss = lease.live.loss
        self.add(
            Record(
                *(self.client, kind, lease.name, began, ended, outcome, lease.ticket, lease.id),
                value="" if loss is None else loss.name,
                weight=shape.weight,
                capacity=shape.capacity,
                until=until,
            )
        )

    def wrote(  # noqa: PLR0913 - the parts of a record
        self,
        kind: Kind,
        lease: LeaseCore,
        began: float,
        outcome: Outcome,
        value: str = "",
        *,
        fenced: bool = True,
    ) -> None:
        """Record a write to the register, or its beginning if the outcome is not known yet."""
        self.add(
            Record(
                *(self.client, kind, lease.name, began, now(), outcome, lease.token, lease.id),
                value=value,
                fenced=fenced,
            )
        )
