"""The sessions of one client: one for each ttl, since a session's timeout is its claims' ttl."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from kazoo.protocol.states import KazooState, WatchedEvent

from lockfast.engines.zookeeper.session import Ear, Session
from lockfast.engines.zookeeper.transport import Transport
from lockfast.engines.zookeeper.url import Address
from lockfast.errors import EngineRefused

MOST = 16  # sessions at once: each has a connection and three threads
READING = 30.0  # seconds: the timeout of a session that only reads


class Pool:
    """Opens sessions on demand. At `MOST` of them, it closes the oldest that is not in use."""

    def __init__(self, address: Address, transport: Transport, ear: Ear) -> None:
        """Open no session yet."""
        self._address = address
        self._transport = transport
        self._ear = ear
        # Re-entrant, because a garbage collection or a signal handler may run lockfast code in the
        # thread that holds it. So sessions may come and go between any two steps below.
        self._lock = threading.RLock()
        self._sessions: dict[int | None, Session] = {}
        self._closed = False

    @contextmanager
    def of(self, ttl: float) -> Iterator[Session]:
        """Use the session whose timeout is `ttl`; it may not be connected yet.

        A session in use is not closed to make room for another. Otherwise the server would delete
        the node of a claim that is granted meanwhile, and its holder would not know.
        """
        with self._lock:
            session = self._open(int(ttl * 1000), ttl)
            session.users += 1
        with self._used(session):
            yield session

    @contextmanager
    def any(self) -> Iterator[Session]:
        """Use a connected session, whatever its timeout; open one if there is none."""
        with self._lock:
            usable = (each for each in list(self._sessions.values()) if each.usable)
            session = next(usable, None) or self._open(None, READING)
            session.users += 1
        with self._used(session):
            yield session

    @contextmanager
    def _used(self, session: Session) -> Iterator[None]:
        try:
            yield
        finally:
            with self._lock:
                session.users -= 1

    def _open(self, key: int | None, ttl: float) -> Session:
        with self._lock:
            found = self._sessions.get(key)
            if found is not None:
                return found
            if self._closed:
                raise EngineRefused("this engine is closed")
            if len(self._sessions) >= MOST:
                self._make_room()
            session = Session(self._address, ttl, self._transport, self)
            kept = self._sessions.setdefault(key, session)
            if kept is not session:  # another was opened while this one was made
                session.retire()
            return kept

    def _make_room(self) -> None:
        for key, session in list(self._sessions.items()):
            if not session.claims and not session.users:
                self._sessions.pop(key, None)
                session.retire()
                return
        raise EngineRefused(
            f"this client uses {MOST} different ttls at once, and each of them needs a session of "
            "ZooKeeper: use fewer"
        )

    def drop_unused(self, session: Session) -> None:
        """Close a session if it has no claims and only the caller uses it. The next claim opens
        another one. The server would delete claims with the session, unknown to their holders.
        """
        with self._lock:
            if not session.claims and session.users == 1:
                self._drop(session)

    def _drop(self, session: Session) -> None:
        with self._lock:
            for key, each in list(self._sessions.items()):
                if each is session:
                    self._sessions.pop(key, None)
        session.retire(alive=session.shortened)

    def told(self, session: Session, state: str) -> None:
        """Pass a session's new state on, and drop the session if it is lost."""
        self._ear.told(session, state)
        if state == KazooState.LOST:
            self._drop(session)

    def heard(self, session: Session, event: WatchedEvent) -> None:
        """Pass a watch that fired on."""
        self._ear.heard(session, event)

    def all(self) -> list[Session]:
        """Return all sessions."""
        return list(self._sessions.values())

    def close(self) -> list[Session]:
        """Refuse to open more sessions, and return the open ones, which the caller closes."""
        with self._lock:
            self._closed = True
            sessions, self._sessions = list(self._sessions.values()), {}
        return sessions
