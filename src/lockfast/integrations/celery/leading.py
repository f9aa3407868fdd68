"""A mixin for the schedulers of `celery beat`: of several running beats, only the leader sends."""

from __future__ import annotations

import logging
from typing import Any

from celery.beat import Scheduler

from lockfast.blocking.client import Candidacy, Election, Lease
from lockfast.errors import EngineError

log = logging.getLogger("lockfast")
LOOK = 1.0  # the longest pause between two ticks of a beat that does not lead, in seconds


class Leading(Scheduler):
    """Put it in front of a scheduler class, which then ticks only while this beat leads."""

    _candidacy: Candidacy | None = None

    def tick(self, *args: Any, **kwargs: Any) -> float:  # noqa: ANN401  # Celery's
        """Send the tasks that are due, if this beat leads. Return the seconds to the next tick."""
        if self._candidacy is None:  # not in __init__: Celery also makes schedulers to print them
            self._candidacy = self._election.run(self._gained, self._lost)
            self._candidacy.start()
        lease = self._candidacy.lease
        if lease is not None and lease.remaining > 0.0:
            return super().tick(*args, **kwargs) if self._lead(lease) else LOOK
        try:
            self._follow()
        except EngineError as error:
            log.warning("the leader of %r could not be read: %s", self._election.name, error)
        return LOOK

    @property
    def _election(self) -> Election:
        election = self.app.conf.get("lockfast_beat")
        if not isinstance(election, Election):
            raise TypeError(
                "set app.conf.lockfast_beat to an election, such as client.election('beat', ttl=10)"
            )
        return election

    def _lead(self, lease: Lease) -> bool:
        """Prepare a tick of the leader, and return whether it can send."""
        del lease
        return True

    def _follow(self) -> None:
        """Do what a beat does instead of a tick while it does not lead."""

    @staticmethod
    def _gained(lease: Lease) -> None:
        log.info("this beat leads, with term %d", lease.token)

    @staticmethod
    def _lost() -> None:
        log.info("this beat no longer leads")

    def close(self) -> None:
        """Store the schedule, then resign: the next leader need not wait until the ttl is over."""
        try:
            super().close()
        finally:
            if self._candidacy is not None:
                self._candidacy.withdraw()
