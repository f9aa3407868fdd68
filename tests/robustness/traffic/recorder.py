"""A recorder: appends each record to a client's file at once, so that a killed one has left all."""

from __future__ import annotations

import os
from pathlib import Path

from lockfast.port import Shape
from lockfast.primitives.lease import LeaseCore
from tests.robustness.history import Kind, Outcome, Record, dumped
from tests.robustness.traffic.clock import now


class Recorder:
    """One client's file. Threads may share it: each record is one write to the end."""

    def __init__(self, path: Path, client: str) -> None:
        self.client = client
        self._file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o644)

    def add(self, *records: Record) -> None:
        """Add them in one write: who is killed has recorded all of one moment, or nothing."""
        os.write(self._file, "".join(f"{dumped(record)}\n" for record in records).encode())

    def close(self) -> None:
        os.close(self._file)

    def refused(self, shapes: list[Shape], began: float, outcome: Outcome, why: str) -> None:
        """Record that nothing was granted, or nobody knows."""
        ended = now()
        self.add(
            *(
                Record(
                    *(self.client, Kind.ACQUIRE, shape.name, began, ended, outcome),
                    weight=shape.weight,
                    capacity=shape.capacity,
                    value=why,
                )
                for shape in shapes
            )
        )

    def holding(
        self, kind: Kind, leases: list[LeaseCore], began: float, outcome: Outcome = Outcome.OK
    ) -> None:
        """Record something about leases, and until when each is believed in."""
        ended = now()
        self.add(*(self._holding(kind, lease, began, ended, outcome) for lease in leases))

    def _holding(
        self, kind: Kind, lease: LeaseCore, began: float, ended: float, outcome: Outcome
    ) -> Record:
        shape, loss = lease.claim.shape, lease.claim.loss
        return Record(
            *(self.client, kind, lease.name, began, ended, outcome, lease.ticket, lease.id),
            value="" if loss is None else loss.name,
            weight=shape.weight,
            capacity=shape.capacity,
            # The lease's clock may be another one, or moved: only a difference can be carried over.
            until=now() + lease.valid_until - lease._now(),
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
