"""The claims of this client at the ensemble, by id: each one's node and local deadline.

A session outlives its claims: kazoo's thread keeps it as long as the process runs. So each claim
has a deadline of its own here. Whoever takes a claim out of here removes its node, and nobody
can renew it any more: both happen under one lock, so nobody believes in what is being removed.

The lock is re-entrant. A garbage collection or a signal handler may run lockfast code (a generator
that was left inside `with lock:`, a handler that releases) in the thread that has it, between any
two instructions here. So what is iterated over is copied first, and a step that would undo what
such a call did in the meantime looks again behind itself.
"""

from __future__ import annotations

import threading

from lockfast.engines.zookeeper.session import Session
from lockfast.port import TOMB_MARGIN, Ask

MANY = 1024  # tombstones among which those that are over are looked for


class OwnClaim:
    """One claim of ours."""

    __slots__ = (
        "ask",
        "child",
        "deadline",
        "folder",
        "gone",
        "id",
        "obstacle",
        "session",
        "ticket",
        "told",
    )

    def __init__(self, ask: Ask, folder: str, session: Session, deadline: float) -> None:
        """Begin unanswered."""
        self.ask = ask
        self.id = ask.id
        self.folder = folder
        self.session = session
        self.deadline = deadline
        self.child: str | None = None
        """The name of its node; None while the reply to its creation is unknown."""
        self.ticket = 0
        self.told = False
        """Whether its holder knows, or will read in a reply or a push, that it is granted."""
        self.gone = False
        """Whether it is being resigned, or a watch has told that its node was removed: nobody is to
        hear of a grant any more."""
        self.obstacle: str | None = None
        """The path of the only node ahead of it, if there was but one: when that goes, it is
        granted."""


Table = dict[str, dict[str, OwnClaim]]
"""Claims by id, by folder. A folder without claims is not there: names do not leak."""


class OwnClaims:
    """The claims of this client at the ensemble, by id. Thread-safe."""

    def __init__(self) -> None:
        """Begin empty."""
        self._lock = threading.RLock()
        self._mine: dict[str, OwnClaim] = {}
        self._folders: Table = {}
        self._doomed: Table = {}
        """Claims that nobody can renew any more, but whose node may still be there."""
        self._tombs: dict[str, float] = {}

    def enter(self, mine: OwnClaim) -> None:
        """Take a claim in, before it is sent."""
        with self._lock:
            mine.session.claims.add(mine.id)
            _join(self._folders, mine)
            self._mine[mine.id] = mine  # last: from now on it can be taken out

    def get(self, id_: str) -> OwnClaim | None:
        """Find a claim."""
        return self._mine.get(id_)

    def take(self, mine: OwnClaim) -> bool:
        """Take a claim out; False if another has done it."""
        with self._lock:
            return self._take(mine)

    def _take(self, mine: OwnClaim) -> bool:
        if self._mine.get(mine.id) is not mine or self._mine.pop(mine.id, None) is None:
            return False
        _part(self._folders, mine)
        mine.session.claims.discard(mine.id)
        return True

    def extend(self, mine: OwnClaim, until: float, now: float) -> bool:
        """Let a claim live longer; never shorter, and not if its time was over."""
        with self._lock:
            if self._mine.get(mine.id) is not mine or now >= mine.deadline:
                return False
            mine.deadline = max(mine.deadline, until)
            return True

    def tell(self, mine: OwnClaim, now: float) -> bool:
        """Note that a claim is granted; False if that was known, or it is gone, or over."""
        with self._lock:
            if mine.told or mine.gone or now >= mine.deadline:
                return False
            if self._mine.get(mine.id) is not mine:
                return False
            mine.told = True
            return True

    def within(self, folder: str) -> list[OwnClaim]:
        """Return our claims on one name."""
        with self._lock:
            return list(self._folders.get(folder, {}).values())

    def on(self, session: Session) -> list[OwnClaim]:
        """Return the claims of one session."""
        with self._lock:
            return [mine for mine in list(self._mine.values()) if mine.session is session]

    def doom(self, mine: OwnClaim) -> bool:
        """Take a claim out whose node is to be removed; False if another has taken it."""
        with self._lock:
            return self._doom(mine)

    def _doom(self, mine: OwnClaim) -> bool:
        if not self._take(mine):
            return False
        _join(self._doomed, mine)
        return True

    def buried(self, mine: OwnClaim) -> None:
        """Note that a doomed claim's node is gone."""
        with self._lock:
            _part(self._doomed, mine)

    def doomed(self, now: float, folder: str | None = None) -> list[OwnClaim]:
        """Doom the claims whose time is over, and give all that are doomed, on one name or all."""
        with self._lock:
            among = self._mine if folder is None else self._folders.get(folder, {})
            for mine in list(among.values()):
                if now >= mine.deadline:
                    self._doom(mine)
            if folder is not None:
                return list(self._doomed.get(folder, {}).values())
            return [mine for mates in list(self._doomed.values()) for mine in list(mates.values())]

    def next(self) -> float | None:
        """Tell when a claim's time will be over, if none is renewed."""
        with self._lock:
            return min((mine.deadline for mine in list(self._mine.values())), default=None)

    def entomb(self, ask: Ask, now: float) -> None:
        """Let an id be dead: every copy of a claim is sent by this client, so it is enough that
        this client knows. What was sent before is found by asking behind it (trap 47).
        """
        with self._lock:
            if len(self._tombs) >= MANY:
                for id_, until in list(self._tombs.items()):
                    if until <= now:
                        self._tombs.pop(id_, None)
            self._tombs[ask.id] = max(self._tombs.get(ask.id, 0.0), ask.not_after + TOMB_MARGIN)

    def is_dead(self, ask: Ask, now: float) -> bool:
        """Return whether a claim may not be sent any more."""
        return now > ask.not_after or self._tombs.get(ask.id, 0.0) > now


def _join(table: Table, mine: OwnClaim) -> None:
    """Add a claim to its folder. Once it is there, nobody removes the folder."""
    while True:
        mates = table.setdefault(mine.folder, {})
        mates[mine.id] = mine
        if table.get(mine.folder) is mates:
            return


def _part(table: Table, mine: OwnClaim) -> None:
    """Remove a claim from its folder, and the folder if it was the last."""
    mates = table.get(mine.folder, {})
    mates.pop(mine.id, None)
    if not mates and table.get(mine.folder) is mates:
        table.pop(mine.folder, None)
        for late in list(mates.values()):  # it came in between, and looked for itself too early
            _join(table, late)
