"""What an engine knows of the claims that it has put into etcd, without any request."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import count

from lockfast.engines.etcd.claim_transaction import form_of
from lockfast.engines.etcd.keys import Row
from lockfast.engines.etcd.own_claim import Over, OwnClaim
from lockfast.engines.etcd.snapshot import AT_ONCE
from lockfast.engines.etcd.transport import Transport
from lockfast.port import LONGEST_WAIT, TOMB_MARGIN, Ask

PAUSE = 0.1  # seconds before deletions that have failed are tried again, at first
REMEMBERED = 60.0  # seconds: longer than any request takes


class Register:
    """The claims of an engine, by id. Thread-safe, and nothing in it waits."""

    def __init__(self, transport: Transport) -> None:
        """Start without claims."""
        self._transport = transport
        self._by_id: dict[str, OwnClaim] = {}
        # Re-entrant: a signal handler or a finalizer may interrupt a thread that is inside between
        # any two steps, and use the same client. So every loop inside runs over a copy, and a
        # result that an interruption may have made wrong is discarded: see `_sooner`.
        self._lock = threading.RLock()
        self._ticks = count()
        self._changed = next(self._ticks)
        self._over: dict[str, Over] = {}
        """The claims whose time is over, by id, until they are known to be deleted. They are not
        renewed: a deletion under way would remove a claim that was just reported as held. Claims
        that were never answered are here too. If a copy of one is applied later, nothing else would
        end it, because it is on a lease that this process keeps alive."""
        self._ended: dict[str, tuple[float, int]] = {}
        """The claims that were deleted a short time ago: when, and with which epoch. A reply that
        was under way meanwhile must not report one as held."""
        self._endings: deque[tuple[float, str]] = deque()  # the same, the oldest first
        self._copies: dict[str, int] = {}  # by id: copies sent and not answered
        self._unsure: dict[str, tuple[float, Over]] = {}
        """Claims with a copy or an adoption whose outcome is unknown: until when another one may be
        sent, and what to delete. After that time they are deleted. The caller may have given up
        without being able to resign, and relies on the claim to end by itself."""
        self.tombs: dict[str, float] = {}
        """Ids that must not be claimed again, and until when. All copies are sent from here."""
        self._many = AT_ONCE
        """How many tombstones there may be before those that are over are looked for again."""
        self.adopting = 0
        """How many transactions that adopt claims were sent and not answered. A lease on which one
        may have put a claim is not revoked."""
        self._pause = PAUSE
        self.soonest = math.inf
        """No claim is over before this time, so `prune` need not run before it."""

    def __len__(self) -> int:
        """Return the number of claims, including those that are still to be deleted."""
        return len(self._by_id) + len(self._over)

    def get(self, id_: str) -> OwnClaim | None:
        """Return the claim with this id, or None."""
        return self._by_id.get(id_)

    def add(self, mine: OwnClaim) -> OwnClaim:
        """Add a claim that etcd has, and return it as it is known here.

        The caller may have repeated it by itself, and renewed it since, while a call that it shared
        was not read yet. What this call says is older, and must not shorten the claim's time.
        """
        with self._lock:
            if self._is_over(mine.id, mine.epoch):
                return mine
            known = self._by_id.get(mine.id)
            if known is not None and known.mod >= mine.mod:
                known.until = max(known.until, min(mine.until, known.session.until))
                return known
            self._over.pop(mine.id, None)  # of an earlier connection: see `dead`
            self._by_id[mine.id] = mine
            self._sooner(mine.until)
        return mine

    def _sooner(self, when: float, *, anew: bool = False) -> None:
        """Lower `soonest` to `when`, or, with `anew`, set it to `when`. If an interruption changed
        it in between, that change may be lost. Then `soonest` is 0, and `prune` looks at all.
        """
        before = self._changed
        self.soonest = when if anew else min(self.soonest, when)
        if self._changed != before:
            self.soonest = 0.0
        self._changed = next(self._ticks)

    def drop(self, id_: str) -> None:
        """Forget a claim that etcd no longer has. A copy that was never answered may still arrive,
        for example after an operator broke the claim. So `prune` deletes it and moves the gates.
        It deletes a waiter whose lease has ended too: etcd may have moved it to the other lease.
        """
        mine = self._by_id.pop(id_, None)
        if mine is not None and (id_ in self._copies or mine.astray()):
            with self._lock:
                self._over[id_] = mine.over(sure=False)
                self._sooner(0.0)

    def sending(self, asks: Iterable[Ask]) -> None:
        """Note that a copy of each claim is sent."""
        for ask in asks:
            self._copies[ask.id] = self._copies.get(ask.id, 0) + 1

    def dead(self, ask: Ask) -> bool:
        """Return whether a claim must not be sent again: it was buried, or its time is over.

        If only the time of an earlier connection is over, it may live: another engine may have
        adopted it meanwhile. Then the deletion will not find it as this engine has put it.
        """
        return ask.id in self.tombs or self._is_over(ask.id, ask.epoch)

    def _is_over(self, id_: str, epoch: int) -> bool:
        over, ended = self._over.get(id_), self._ended.get(id_)
        return (over is not None and over.epoch >= epoch) or (
            ended is not None and ended[1] >= epoch
        )

    def of(self, row: Row) -> OwnClaim | None:
        """Return the claim of a row, if no other engine has adopted it."""
        mine = self._by_id.get(row.id)
        return mine if mine is not None and mine.epoch >= row.epoch else None

    def over(self, row: Row) -> bool:
        """Return whether the time of a claim is over, and it waits to be deleted."""
        over = self._over.get(row.id)
        return over is not None and over.epoch >= row.epoch

    def answered(self, asks: Iterable[Ask]) -> None:
        """Note that a copy of each claim was answered, or not sent after all."""
        for ask in asks:
            left = self._copies.get(ask.id, 0) - 1
            if left > 0:
                self._copies[ask.id] = left
            else:
                self._copies.pop(ask.id, None)

    def bury(self, asks: Iterable[Ask]) -> None:
        """Leave a tombstone for each claim, so that no copy of it is sent any more."""
        now = self._transport.now()
        if len(self.tombs) > self._many:  # over a copy, and in place: others bury meanwhile
            for id_, until in list(self.tombs.items()):
                if until <= now:
                    self.tombs.pop(id_, None)
            self._many = max(AT_ONCE, 2 * len(self.tombs))
        for ask in asks:
            # Do not rely on the caller's `not_after` alone, and never shorten a tombstone.
            until = max(ask.not_after, now + LONGEST_WAIT) + TOMB_MARGIN
            self.tombs[ask.id] = max(self.tombs.get(ask.id, 0.0), until)

    def unread(self, asks: Sequence[Ask]) -> None:
        """Note that the reply to these claims could not be decoded. They count as not answered."""
        self.sending(asks)
        self.doubt(asks)

    def doubt(self, asks: Iterable[Ask], until: float = 0.0) -> None:
        """Have `prune` delete these claims after their `not_after`, or after `until` if that is
        later, if no answer comes. If requests of several connections were not answered, any of
        them may have put the claim.
        """
        with self._lock:
            for ask in asks:
                over = Over(form_of(ask.shape).key(ask.id), 0, ask.epoch)
                known, earlier = self._unsure.get(ask.id, (0.0, over))
                end = max(ask.not_after, until, known)
                self._unsure[ask.id] = (end, over if over.epoch >= earlier.epoch else earlier)
                self._sooner(end)

    def _end_of(self, mine: OwnClaim) -> float:
        """Return when a claim is over. If it was not answered that a later connection has adopted
        it here, it is over when the adoption is.
        """
        end, over = self._unsure.get(mine.id, (0.0, None))
        return mine.until if over is None or over.epoch <= mine.epoch else max(mine.until, end)

    def expire(self) -> dict[str, Over]:
        """Return what is to be deleted, by id: the claims whose time is over, and those that were
        not deleted the last time.
        """
        now = self._transport.now()
        with self._lock:
            before = self._changed
            for id_, (end, over) in list(self._unsure.items()):
                known = self._by_id.get(id_)
                if id_ not in self._copies or (known is not None and known.epoch >= over.epoch):
                    self._unsure.pop(id_, None)  # another one was answered
                elif end <= now:
                    self._unsure.pop(id_, None)
                    self._by_id.pop(id_, None)
                    self._over[id_] = over
            for mine in list(self._by_id.values()):
                if self._end_of(mine) <= now:
                    self._over[mine.id] = mine.over()
                    self._by_id.pop(mine.id, None)
            left = [self._end_of(mine) for mine in list(self._by_id.values())]
            left += [end for end, _ in list(self._unsure.values())]
            same = self._changed == before
            self._sooner(min(left, default=math.inf) if same else 0.0, anew=True)
            return dict(self._over)

    def _has_ended(self, id_: str, epoch: int) -> None:
        now = self._transport.now()
        with self._lock:
            unsure = self._unsure.get(id_)
            if unsure is None or unsure[1].epoch <= epoch:
                self._copies.pop(id_, None)
            self._over.pop(id_, None)
            while self._endings and self._endings[0][0] < now - REMEMBERED:
                when, old = self._endings.popleft()
                if self._ended.get(old, (0.0, 0))[0] == when:
                    self._ended.pop(old, None)
            self._ended[id_] = (now, epoch)
            self._endings.append((now, id_))
