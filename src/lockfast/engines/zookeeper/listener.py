"""Turns kazoo's session and watch callbacks into wakes, for one client."""

from __future__ import annotations

from collections import deque

from kazoo.protocol.serialization import GetChildren
from kazoo.protocol.states import EventType, KazooState, WatchedEvent

from lockfast.engines.zookeeper.failures import SessionLost
from lockfast.engines.zookeeper.messages import listed
from lockfast.engines.zookeeper.own_claims import OwnClaims
from lockfast.engines.zookeeper.session import Session
from lockfast.engines.zookeeper.standing import Look
from lockfast.engines.zookeeper.transport import Transport
from lockfast.errors import EngineError
from lockfast.port import CLIENT, EVERYONE, Wake, everyone_of
from lockfast.runtime.base import Bell

IO = 5.0  # seconds after which an unanswered read is given up
LEAST = 0.05  # seconds that a read gets even if renewals are due


class Listener:
    """Turns kazoo's session and watch callbacks into wakes, for one client."""

    def __init__(self, transport: Transport, bell: Bell, own: OwnClaims, base: str) -> None:
        """Start without wakes. `base` is the path of the node with the token base."""
        self._bell = bell
        self._transport = transport
        self._own = own
        self._base = base
        self.look = Look(transport, own, self.worth_a_look)
        self._pushes: deque[Wake] = deque()
        self._dirty: dict[tuple[Session, str], None] = {}
        self._heard: dict[str, None] = {}

    def hear(self, client: str, *, on: bool) -> None:
        """Start or stop returning the wakes of a client. There is nothing to subscribe to: a waiter
        sets its own watches.
        """
        if on:
            self._heard[client] = None
            self._pushes.append(everyone_of(client))
            self._bell.ring()
        else:
            self._heard.pop(client, None)

    def told(self, session: Session, state: str) -> None:
        """Handle a new state of a session, in kazoo's thread."""
        mine = self._own.on(session)
        if state == KazooState.CONNECTED:
            self._pushes.append(EVERYONE)  # watches ended with the last connection
        elif state == KazooState.LOST:
            for each in mine:
                self._own.take(each)
                self._own.entomb(each.ask, self._transport.now())  # no copy is sent again
        # Their leases may be in jeopardy, held again, or lost. The wakes make the heart renew them
        # now, and not at its next beat.
        self._pushes.extend(Wake(each.id, granted=False) for each in mine)
        self._bell.ring()

    def heard(self, session: Session, event: WatchedEvent) -> None:
        """Handle a watch that fired, in kazoo's thread."""
        if event.path == self._base:
            session.changes += 1
            return
        if event.type != EventType.DELETED:
            return
        folder = event.path.rpartition("/")[0]
        for mine in self._own.within(folder):
            if event.path == f"{folder}/{mine.child}" and not mine.gone:
                mine.gone = True
                self._pushes.append(Wake(mine.id, granted=False))
                self._bell.ring()
            elif mine.obstacle == event.path and self._own.tell(mine, self._transport.now()):
                self._pushes.append(Wake(mine.id, granted=True, floor=mine.ticket))
                if mine.ask.shape.exclusive:  # no other claim fits beside it
                    self._bell.ring()
                    return
        self.worth_a_look(session, folder)

    def worth_a_look(self, session: Session, folder: str) -> None:
        """Have `listen` read a queue. Any thread may call this."""
        self._dirty[session, folder] = None
        self._bell.ring()

    async def listen(self, deadline: float | None) -> list[Wake]:
        """Wait until a watch fires, and return wakes for the waiters that it lets in. Return by
        `deadline`, when leases must be renewed. Otherwise one silent server could delay the
        renewals of all sessions until their leases are lost.
        """
        if not self._pushes and not self._dirty:
            await self._bell.wait(deadline)
        while self._dirty:
            (session, folder), _ = self._dirty.popitem()  # kazoo's threads may add to it meanwhile
            now = self._transport.now()
            until = now + IO if deadline is None else min(now + IO, max(deadline, now + LEAST))
            try:
                await self._glance(session, folder, until)
            except SessionLost:
                continue
            except EngineError:
                self._pushes.append(EVERYONE)
        pushes = []
        while self._pushes:
            wake = self._pushes.popleft()
            if not wake.id or wake.id[:CLIENT] in self._heard:
                pushes.append(wake)
        return pushes

    async def _glance(self, session: Session, folder: str, deadline: float) -> None:
        """Read a queue, and add wakes for our waiters that are granted. Use the session whose watch
        fired, because the server of another session may not know of the change yet.
        """
        now = self._transport.now()
        waiting = [
            mine
            for mine in self._own.within(folder)
            if mine.admitted and not mine.told and not mine.gone and now < mine.deadline
        ]
        if not waiting or not session.usable:
            return  # the next connection wakes everyone
        reply = session.send(self._transport, GetChildren(folder, None))
        line = await listed(self._transport, session, folder, reply, deadline)
        for mine in waiting:
            place = line.place(mine.child or "")
            if place is None:
                continue  # it was broken, which its next renewal reports
            if place >= line.granted:
                await self.look.watch(mine, line, place, deadline)
            else:
                standing = await self.look.standing(mine, line, now, deadline)
                if standing is None or not standing.granted:
                    continue
                if self._own.tell(mine, self._transport.now()):  # a watch may have been quicker
                    self._pushes.append(Wake(mine.id, granted=True, floor=standing.floor))
