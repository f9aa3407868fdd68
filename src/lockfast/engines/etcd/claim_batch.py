"""Claims that are made together, in rounds: each round is one request for all claims that are left.

The first round puts the claims whose names are free, and those that may wait in a queue. If the
names of recent claims were free, a round comes before it that puts all claims or none. It costs
etcd much less, because no claim says what else to do. What is left after the first round needs
something first: the gate of a session as it is now, a lease for waiters, or the queue
beside which a permit is taken. The claims that need the same are read and sent again together, so
nobody waits for a number of requests that grows with the number of claims.

A round that fails concerns only the claims that it carries. Those that were answered in an earlier
round keep their answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from lockfast.engines.etcd import claim_transaction, keys
from lockfast.engines.etcd.adoption import Adoption, Moved
from lockfast.engines.etcd.claiming import Attempt
from lockfast.engines.etcd.failures import another
from lockfast.engines.etcd.keys import Row
from lockfast.engines.etcd.messages import Done, done, find, found, inner, rows, txn
from lockfast.engines.etcd.own_claims import OwnClaims
from lockfast.engines.etcd.protobuf import Malformed
from lockfast.engines.etcd.queues import Places
from lockfast.engines.etcd.sending import Sender
from lockfast.engines.etcd.session import Session
from lockfast.engines.etcd.sessions import Sessions
from lockfast.engines.etcd.settling import Entered, settle
from lockfast.engines.etcd.snapshot import read_queues
from lockfast.errors import EngineError, EngineRefused, KindMismatch
from lockfast.port import Ask, Standing

MOST = 64  # claims in one transaction: etcd allows 128 operations
MOST_FREE = 31
"""The same for a round that puts all or none. etcd allows 128 conditions: two for each claim, one
for each of its two sessions at most, and one for the base."""
LUCKY = 3  # batches in a row whose names were free, before such a round is tried
ROUNDS = 4  # after which a claim that was not put is made alone, which also reads its tombstone
Said = Standing | Exception | None


class Luck:
    """Whether the names of recent claims were free."""

    def __init__(self) -> None:
        """Nothing is known before the first batch."""
        self._row = 0

    @property
    def likely(self) -> bool:
        """Whether the names of the next batch are likely to be free."""
        return self._row >= LUCKY

    def note(self, *, free: bool) -> None:
        """Note whether all names of a batch were free."""
        self._row = self._row + 1 if free else 0


class Trial:
    """One claim of a batch, and what the rounds so far have shown about it."""

    __slots__ = ("attempt", "beside", "holder", "queued", "rounds", "waiter")

    def __init__(self, attempt: Attempt) -> None:
        """Nothing is known yet."""
        self.attempt = attempt
        self.queued = False
        """Whether its name was taken, so that it needs a lease for waiters."""
        self.rounds = 0
        self.beside = 0
        """The revision of a queue in which there is room for it; 0: none was read."""
        self.holder: Session
        self.waiter: Session | None = None

    def request(self) -> bytes:
        """Return the claim as an operation of the transaction of a round."""
        ask, form, payload = self.attempt.ask, self.attempt.form, self.attempt.payload
        if self.beside:
            return inner(
                claim_transaction.squeeze(form, ask.id, payload, self.holder, b"", self.beside)
            )
        return claim_transaction.part_of_batch(
            form, ask.id.encode(), payload, self.holder, self.waiter, queue=ask.queue
        )

    def free(self) -> tuple[bytes, bytes]:
        """Return the conditions of the claim if its name is free, and the operation."""
        attempt = self.attempt
        id_ = attempt.ask.id.encode()
        return claim_transaction.if_free(attempt.form, id_, attempt.payload, self.holder)


class ClaimBatch:
    """Claims that are made together. No two are for one name."""

    def __init__(  # noqa: PLR0913, PLR0917  # parts of an engine
        self,
        attempts: Iterable[Attempt],
        sessions: Sessions,
        own: OwnClaims,
        sender: Sender,
        places: Places,
        luck: Luck,
        now: float,
        deadline: float,
    ) -> None:
        """Prepare the claims, at most `MOST`. `now`: just before anything is sent."""
        self._left = {attempt.ask.id: Trial(attempt) for attempt in attempts}
        self._asks = [trial.attempt.ask for trial in self._left.values()]
        self._sessions = sessions
        self._own = own
        self._sender = sender
        self._places = places
        self._luck = luck
        self._now = now
        self._deadline = deadline
        self._said: dict[str, Said] = {}
        self._entered: list[Entered] = []
        self._moved: list[Moved] = []

    async def make(self) -> dict[str, Said]:
        """Make the claims, and return what became of each, by id.

        Raise if etcd refuses the first round, or does not answer it: then nothing is known about
        any of them.
        """
        await self._open()
        if 1 < len(self._left) <= MOST_FREE and self._luck.likely:
            await self._all_or_none(list(self._left.values()))
        elif self._left:
            await self._round(list(self._left.values()))
            self._luck.note(free=self._were_free())
        while self._left:
            await self._open()
            await self._singly([each for each in self._left.values() if each.rounds >= ROUNDS])
            trials = list(self._left.values())
            try:
                await self._round(trials)
            except EngineRefused:  # one of them may be at fault, and none was put
                await self._singly(trials)
            except EngineError as error:
                self._fail(trials, error)
        for (mine, *_), said in zip(
            self._entered,
            await settle(self._entered, self._own, self._places, self._now, self._deadline),
            strict=True,
        ):
            self._said[mine.id] = said
        if self._moved:
            rest = (self._own, self._places, self._now, self._deadline)
            self._said |= await Adoption(self._moved, *rest).make()
        # Resigned or ended while the reply was on its way: that did not find them here.
        for ask in [ask for ask in self._asks if self._own.dead(ask)]:
            self._places.gone([ask.id])
            self._said[ask.id] = None
        return self._said

    def fail(self, error: EngineError) -> dict[str, Said]:
        """Answer all claims with the error that `make` has raised."""
        self._fail(list(self._left.values()), error)
        return self._said

    async def _open(self) -> None:
        """Find the sessions of the next round, or open them: once for each size."""
        opened: dict[int, Session | EngineError] = {}
        for trial in list(self._left.values()):
            form = trial.attempt.form
            holder = await self._session(form.size, opened)
            waiter = None
            if trial.queued:
                waiter = await self._session(form.wait_size, opened)
            elif trial.attempt.ask.queue:
                waiter = self._sessions.ready(form.wait_size, self._now)
            if isinstance(holder, EngineError):
                self._fail([trial], holder)
            elif isinstance(waiter, EngineError):
                self._fail([trial], waiter)
            else:
                trial.holder, trial.waiter = holder, waiter

    async def _session(
        self, size: int, opened: dict[int, Session | EngineError]
    ) -> Session | EngineError:
        found = self._sessions.ready(size, self._now) or opened.get(size)
        if found is None:
            try:
                found = await self._sessions.open(size, self._deadline)
            except EngineError as error:
                found = error
            opened[size] = found
        return found

    def _were_free(self) -> bool:
        """Return whether the first round has put all claims on free names."""
        if self._left or self._entered or self._moved:
            return False
        return all(isinstance(said, Standing) and said.granted for said in self._said.values())

    async def _all_or_none(self, trials: Sequence[Trial]) -> None:
        """Send the claims. If a name is taken, or a gate has moved, none of them is put."""
        trials, replies, _ = await self._send(trials, self._write_free)
        if not trials:
            return
        self._luck.note(free=bool(replies))
        for trial, each in zip(trials, replies, strict=False):
            try:
                said = claim_transaction.put_alone(each)
                self._take(
                    trial.attempt.ask.id, await trial.attempt.entered(said, trial.holder, None)
                )
            except Malformed as error:
                self._own.unread([trial.attempt.ask])
                self._answer(trial.attempt.ask.id, error)
            except (EngineError, KindMismatch) as error:
                self._answer(trial.attempt.ask.id, error)

    async def _send(
        self, trials: Sequence[Trial], write: Callable[[Sequence[Ask]], bytes]
    ) -> tuple[list[Trial], list[bytes], int]:
        """Send the claims in one request. Return those that were sent, the reply to each, and the
        revision. No reply: a condition that they share did not hold.
        """
        asks = [trial.attempt.ask for trial in trials]
        sent, reply = await self._sender.send_all(asks, write, self._deadline)
        gone = {ask.id for ask in asks}.difference(ask.id for ask in sent)
        for id_ in gone:  # resigned, or too late: they were not sent
            self._answer(id_, None)
        left = [trial for trial in trials if trial.attempt.ask.id not in gone]
        if not left:
            return [], [], 0
        try:
            said = done(reply)
            if said.succeeded:
                return left, said.of(len(left)), said.revision
            self._read_gates(left, said)
        except Malformed:
            self._own.unread(sent)
            raise
        return left, [], said.revision

    async def _round(self, trials: Sequence[Trial]) -> None:
        """Send the claims, and read what came of each."""
        for trial in trials:
            trial.rounds += 1
        trials, replies, at = await self._send(trials, self._write)
        unread = [
            trial
            for trial, each in zip(trials, replies, strict=False)
            if not await self._read(trial, each, at)
        ]
        if unread:
            await self._learn(unread)

    def _write(self, asks: Sequence[Ask]) -> bytes:
        """Return the transaction of a round. Its conditions are those that its claims share."""
        trials = [self._left[ask.id] for ask in asks]
        return self._transaction(trials, b"", [trial.request() for trial in trials])

    def _write_free(self, asks: Sequence[Ask]) -> bytes:
        """Return the transaction that puts all claims if all names are free."""
        trials = [self._left[ask.id] for ask in asks]
        parts = [trial.free() for trial in trials]
        return self._transaction(trials, b"".join(part[0] for part in parts), [p[1] for p in parts])

    def _transaction(
        self, trials: Sequence[Trial], conditions: bytes, operations: list[bytes]
    ) -> bytes:
        sessions = self._used(trials)
        conditions += self._sessions.same_base() + b"".join(each.same() for each in sessions)
        reads = [find(keys.BASE), *(find(each.gate_key) for each in sessions)]
        return txn(conditions, operations, reads)

    @staticmethod
    def _used(trials: Iterable[Trial]) -> list[Session]:
        used: dict[Session, None] = {}
        for trial in trials:
            used[trial.holder] = None
            if trial.waiter is not None:
                used[trial.waiter] = None
        return list(used)

    def _read_gates(self, trials: Sequence[Trial], said: Done) -> None:
        """Learn why no claim of a round was put: a gate has moved, or the base has changed."""
        sessions = self._used(trials)
        base, *gates = said.of(1 + len(sessions))
        self._sessions.read_base(base)
        for session, gate in zip(sessions, gates, strict=True):
            self._sessions.read_gate(session, gate)

    async def _read(self, trial: Trial, reply: bytes, at: int) -> bool:
        """Read what came of one claim. Return False if its queue has to be read to tell that."""
        attempt, ask = trial.attempt, trial.attempt.ask
        beside, trial.beside = trial.beside, 0
        try:
            if beside:
                said = claim_transaction.squeezed(reply)
            elif ask.queue or done(reply).succeeded:
                said = claim_transaction.claimed(reply, attempt.form)
            else:  # the same transaction has read the queue
                await self._consider(trial, rows(found(done(reply).of(1)[0])), at)
                return True
            if said is not None:
                waiter = trial.waiter if ask.queue else None
                self._take(ask.id, await attempt.entered(said, trial.holder, waiter))
            elif ask.queue:
                return False
            # Else the queue has changed since it was read. The next round reads it again.
        except Malformed as error:
            self._own.unread([ask])
            self._answer(ask.id, error)
        except (EngineError, KindMismatch) as error:
            self._answer(ask.id, error)
        return True

    async def _learn(self, trials: Sequence[Trial]) -> None:
        """Read the queues of claims that were not put, in one request."""
        try:
            forms = [trial.attempt.form for trial in trials]
            seen = await read_queues(self._own.ask, forms, self._deadline)
        except EngineError as error:
            self._fail(trials, error)
            return
        for trial in trials:
            try:
                await self._consider(trial, seen.queues[trial.attempt.form.prefix], seen.revision)
            except (EngineError, KindMismatch) as error:
                self._answer(trial.attempt.ask.id, error)

    async def _consider(self, trial: Trial, queue: list[Row], at: int) -> None:
        """Answer a claim that was not put, if its queue says enough, or prepare its next round."""
        attempt, ask = trial.attempt, trial.attempt.ask
        if attempt.is_in(queue):
            self._take(ask.id, await attempt.found(queue, at))
            return
        attempt.check(queue)
        if not queue:
            return  # it is free by now
        if ask.queue:
            trial.queued = True
        elif attempt.fits(queue):
            trial.beside = at
        else:
            self._answer(ask.id, attempt.refused(queue))

    async def _singly(self, trials: Sequence[Trial]) -> None:
        """Make the claims one by one, as etcd has refused them together."""
        for attempt in [trial.attempt for trial in trials if trial.attempt.ask.id in self._left]:
            try:
                self._answer(attempt.ask.id, await attempt.make())
            except (EngineError, KindMismatch) as error:
                self._answer(attempt.ask.id, error)

    def _take(self, id_: str, said: Standing | Entered | Moved | None) -> None:
        if isinstance(said, Entered):
            self._left.pop(id_)
            self._entered.append(said)
        elif isinstance(said, Moved):
            self._left.pop(id_)
            self._moved.append(said)
        else:
            self._answer(id_, said)

    def _fail(self, trials: Iterable[Trial], error: EngineError) -> None:
        """End claims with an error, each with one of its own: several callers raise them."""
        for trial in trials:
            if trial.attempt.ask.id in self._left:
                self._answer(trial.attempt.ask.id, another(error))

    def _answer(self, id_: str, said: Said) -> None:
        self._left.pop(id_, None)
        self._said[id_] = said
