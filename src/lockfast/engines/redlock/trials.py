"""The trials of an engine: what it remembers of the proposals of each claim, by id.

It is a memory and no truth: another engine may have proposed the same claim. What a client has read
is in its ask, and what holds is on the nodes.
"""

from __future__ import annotations

from lockfast.engines.redlock import messages
from lockfast.port import LONGEST_WAIT, TOMB_MARGIN, Ask
from lockfast.runtime.base import Clock

MOST = 100_000  # trials that are remembered; without its own a claim is looked for on the nodes
MANY = 1024  # trials from which on old ones are removed
PAST = 32  # withdrawn numbers that are remembered of one claim


class Trial:
    """The proposals of one claim by one engine. The number grows from one to the next."""

    __slots__ = (
        "adopted",
        "dead",
        "epoch",
        "held",
        "open",
        "past",
        "pause",
        "since",
        "token",
        "until",
        "waiting",
    )

    def __init__(self, epoch: int = 0) -> None:
        """Start without a proposal."""
        self.epoch = epoch
        self.token = 0
        self.since = 0
        """The first number. Nodes order their waiters by it, so the longest waiter comes first."""
        self.past: tuple[int, ...] = ()
        """The numbers before `token`, the last one first. Nodes may replace them."""
        self.open = False
        """Whether the outcome of the last proposal is unknown. Its number is then sent again."""
        self.adopted = False
        """Whether `token` is a number that another engine has proposed, and a majority has."""
        self.held = self.waiting = self.dead = False
        self.pause = 0.0
        self.until = 0.0

    def propose(self, token: int, *, adopted: bool = False) -> None:
        """Go on to another number."""
        if self.token and not self.adopted:
            self.past = (self.token, *self.past[: PAST - 1])
        self.token, self.open, self.adopted = token, True, adopted
        self.since = self.since or token

    def packet(self, ask: Ask) -> bytes:
        """Pack the proposal."""
        shape, last = ask.shape, self.past[0] if self.past else 0
        form = messages.claim_form(shape.name, shape.ttl, self.adopted)
        return messages.claim(form, ask.id, self.token, self.since, last, ask.queue, ask.payload)


class Trials:
    """The trials of one engine, by the claim's id. A trial is forgotten when its claim is answered
    for good, or when nobody has asked for so long that the claim has ended.
    """

    def __init__(self, clock: Clock) -> None:
        """Start without any."""
        self._now = clock
        self._trials: dict[str, Trial] = {}
        self._many = MANY

    def get(self, ask: Ask) -> Trial | None:
        """Return what is known of a claim, which is what its client has read if that is newer."""
        trial = self._trials.get(ask.id)
        if trial is None or trial.epoch < ask.epoch:  # since then, others were asked
            if not ask.ticket and trial is None:
                return None
            dead = trial is not None and trial.dead
            trial = Trial(ask.epoch)
            trial.dead = dead
            self._keep(ask, trial)
        if ask.granted:
            trial.token, trial.held, trial.waiting, trial.open = ask.ticket, True, False, False
        elif ask.ticket and not trial.held:
            trial.since, trial.waiting = ask.ticket, True
        trial.until = max(trial.until, self._now() + max(ask.shape.ttl, LONGEST_WAIT))
        return trial

    def of(self, ask: Ask) -> Trial:
        """Return what is known of a claim, and remember it from now on."""
        trial = self.get(ask)
        if trial is None:
            trial = Trial(ask.epoch)
            trial.until = self._now() + max(ask.shape.ttl, LONGEST_WAIT)
            self._keep(ask, trial)
        return trial

    def entomb(self, ask: Ask) -> None:
        """Refuse the id from now on. The nodes refuse it too: see resign.lua."""
        trial = self.of(ask)
        trial.dead = True
        trial.until = max(trial.until, ask.not_after + TOMB_MARGIN)

    def forget(self, ask: Ask) -> None:
        """Forget a claim, which is over."""
        self._trials.pop(ask.id, None)

    def _keep(self, ask: Ask, trial: Trial) -> None:
        if len(self._trials) >= self._many:
            now = self._now()
            for id_, each in list(self._trials.items()):
                if each.until < now:
                    self._trials.pop(id_, None)
            if len(self._trials) >= MOST:  # many at once, because this looks at all of them
                for id_ in list(self._trials)[: MOST // 4]:
                    self._trials.pop(id_, None)
            self._many = min(max(MANY, 2 * len(self._trials)), MOST)
        self._trials[ask.id] = trial
