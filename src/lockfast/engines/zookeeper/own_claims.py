"""The claims of this client at the ensemble, by id: each one's node and local deadline.

kazoo's thread keeps a session alive as long as the process runs, so each claim has a deadline of
its own here. The caller that takes a claim out of the table removes its node. From then on no
renewal can extend the claim. Taking out and extending use one lock, so no holder gets a renewal of
a claim that is being removed.

The lock is re-entrant. A garbage collection or a signal handler may run lockfast code (a generator
that was left inside `with lock:`, a handler that releases) in the thread that holds it, between any
two instructions here. So loops run over copies, and a step that could undo what such a nested call
did checks the result afterwards.
"""

from __future__ import annotations

import threading

from lockfast.engines.zookeeper.session import Session
from lockfast.port import TOMB_MARGIN, Ask

MANY = 1024  # tombstones from which on expired ones are removed


class OwnClaim:
    """One claim of this client."""

    __slots__ = (
        "admitted",
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
        """Start without a known node: the claim was not answered yet."""
        self.ask = ask
        self.id = ask.id
        self.folder = folder
        self.session = session
        self.deadline = deadline
        self.child: str | None = None
        """The name of its node; None while the reply to its creation is unknown."""
        self.ticket = 0
        self.admitted = False
        """Whether a list of its queue has shown that it may stay there: see `Recipe.admit`. Before
        that, no grant of it is reported."""
        self.told = False
        """Whether the grant was reported to the client, or is about to be, in a reply or a push."""
        self.gone = False
        """Whether it is being resigned, or a watch has reported that its node was deleted. Then no
        grant of it is reported any more."""
        self.obstacle: str | None = None
        """The path of the only node ahead of it, if there is just one. When the server deletes that
        node, the claim is granted."""


Table = dict[str, dict[str, OwnClaim]]
"""Claims by folder and id. A folder without claims is removed, so that names do not accumulate."""


class OwnClaims:
    """The claims of this client at the ensemble, by id. Thread-safe."""

    def __init__(self) -> None:
        """Start empty."""
        self._lock = threading.RLock()
        self._mine: dict[str, OwnClaim] = {}
        self._folders: Table = {}
        self._doomed: Table = {}
        """Claims that can no longer be renewed, but whose node may still exist."""
        self._tombs: dict[str, float] = {}

    def enter(self, mine: OwnClaim) -> None:
        """Add a claim, before it is sent."""
        with self._lock:
            mine.session.claims.add(mine.id)
            _join(self._folders, mine)
            self._mine[mine.id] = mine  # last: from now on it can be taken out

    def get(self, id_: str) -> OwnClaim | None:
        """Return the claim with this id; None if it is not in the table."""
        return self._mine.get(id_)

    def take(self, mine: OwnClaim) -> bool:
        """Take a claim out; False if another caller has done so."""
        with self._lock:
            return self._take(mine)

    def _take(self, mine: OwnClaim) -> bool:
        if self._mine.get(mine.id) is not mine or self._mine.pop(mine.id, None) is None:
            return False
        _part(self._folders, mine)
        mine.session.claims.discard(mine.id)
        return True

    def extend(self, mine: OwnClaim, until: float, now: float) -> bool:
        """Extend a claim's deadline, and never shorten it. False if it has expired or is gone."""
        with self._lock:
            if self._mine.get(mine.id) is not mine or now >= mine.deadline:
                return False
            mine.deadline = max(mine.deadline, until)
            return True

    def tell(self, mine: OwnClaim, now: float) -> bool:
        """Note that a grant is reported. False if it already was, or the claim is gone or over."""
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
        """Move a claim to those whose node is to be removed. False if it was taken out before."""
        with self._lock:
            return self._doom(mine)

    def _doom(self, mine: OwnClaim) -> bool:
        if self._mine.get(mine.id) is not mine:
            return False
        # First, so that Ctrl-C in between forgets no claim. One that a nested call takes out just
        # now stays among the doomed, and the reaper finds that its node is gone.
        _join(self._doomed, mine)
        return self._take(mine)

    def buried(self, mine: OwnClaim) -> None:
        """Note that the node of a doomed claim no longer exists."""
        with self._lock:
            _part(self._doomed, mine)

    def doomed(self, now: float, folder: str | None = None) -> list[OwnClaim]:
        """Doom the expired claims, and return all doomed claims, in one folder or in all."""
        with self._lock:
            among = self._mine if folder is None else self._folders.get(folder, {})
            for mine in list(among.values()):
                if now >= mine.deadline:
                    self._doom(mine)
            if folder is not None:
                return list(self._doomed.get(folder, {}).values())
            return [mine for mates in list(self._doomed.values()) for mine in list(mates.values())]

    @property
    def any_doomed(self) -> bool:
        """Whether there are doomed claims."""
        return bool(self._doomed)

    def dying(self, id_: str, folder: str) -> OwnClaim | None:
        """Return the doomed claim with this id; None if there is none."""
        return self._doomed.get(folder, {}).get(id_)

    def next(self) -> float | None:
        """Return the earliest deadline of all claims; None if there are no claims."""
        with self._lock:
            return min((mine.deadline for mine in list(self._mine.values())), default=None)

    def entomb(self, ask: Ask, now: float) -> None:
        """Refuse to send the id again. Only this client sends copies of a claim, so a tombstone in
        this table is enough. A copy that was sent before is found by a list that is sent behind it
        (trap 47).
        """
        with self._lock:
            if len(self._tombs) >= MANY:
                for id_, until in list(self._tombs.items()):
                    if until <= now:
                        self._tombs.pop(id_, None)
            self._tombs[ask.id] = max(self._tombs.get(ask.id, 0.0), ask.not_after + TOMB_MARGIN)

    def is_dead(self, ask: Ask, now: float) -> bool:
        """Return whether a claim must not be sent any more."""
        return now > ask.not_after or self._tombs.get(ask.id, 0.0) > now


def _join(table: Table, mine: OwnClaim) -> None:
    """Add a claim to its folder. Repeat if a nested call has removed the empty folder meanwhile."""
    while True:
        mates = table.setdefault(mine.folder, {})
        mates[mine.id] = mine
        if table.get(mine.folder) is mates:
            return


def _part(table: Table, mine: OwnClaim) -> None:
    """Remove a claim from its folder, and the folder if that was its last claim."""
    mates = table.get(mine.folder, {})
    mates.pop(mine.id, None)
    if not mates and table.get(mine.folder) is mates:
        table.pop(mine.folder, None)
        for late in list(mates.values()):  # added by a nested call before the pop
            _join(table, late)
