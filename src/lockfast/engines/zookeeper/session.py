"""One ZooKeeper session, on one connection at a time: kazoo's client, used for that session alone.

kazoo would begin another session where one was lost, and a request that falls in between would be
sent on it. Ours ends with its session; the engine opens the next one.
"""

from __future__ import annotations

import atexit
import contextlib
import socket
import threading
from typing import Any, Protocol

from kazoo.client import KazooClient
from kazoo.exceptions import (
    BadVersionError,
    ConnectionDropped,
    KazooException,
    NodeExistsError,
    NoNodeError,
)
from kazoo.protocol.serialization import Auth, Connect, Exists
from kazoo.protocol.states import KazooState, KeeperState, WatchedEvent
from kazoo.retry import KazooRetry

from lockfast.engines.zookeeper.failures import SessionLost, failed, whole
from lockfast.engines.zookeeper.kazoo_handler import Handler
from lockfast.engines.zookeeper.kazoo_replies import Reading, survive
from lockfast.engines.zookeeper.kazoo_requests import Login, Opening
from lockfast.engines.zookeeper.transport import Late, Reply, Transport
from lockfast.engines.zookeeper.url import Address
from lockfast.errors import EngineRefused, EngineUnavailable

PATIENCE = (1.5, 5.0)  # seconds that connecting to one host may take: always, and at most
OUTLIVED = 10.0  # seconds without a connection, or two timeouts, after which a session is given up
NUDGE = 0.05  # seconds without an answer after which a server is poked


class Ear(Protocol):
    """Who hears of a session, in kazoo's threads."""

    def told(self, session: Session, state: str) -> None:
        """Hear of its state."""

    def heard(self, session: Session, event: WatchedEvent) -> None:
        """Hear of a watch that fired."""


class Session:
    """A session. Its requests are answered in the order in which they are sent."""

    def __init__(
        self,
        address: Address,
        timeout: float,
        transport: Transport,
        ear: Ear,
    ) -> None:
        """Begin to connect."""
        self.where = address.hosts
        self.asked = int(timeout * 1000)
        self.negotiated = 0
        """Milliseconds that the server keeps the session without a sign of life, as `asked`."""
        self.lost = False
        self.shortened = False
        """Whether it is lost because a server keeps it for less than was asked for."""
        self.refused = False
        self.anchor = 0.0
        """From when on the session lives for its timeout: see `prove`."""
        self.watched: set[str] = set()
        self.changes = 0
        """How often the token base that rules may have changed."""
        self.checked = -1
        """How many of them had been when it was read. Not a flag: others must not pass before the
        first one has read it, and a change that comes while it is read must count.
        """
        self.users = 0
        """How many calls use it now. The pool counts them, under its lock."""
        self.claims: set[str] = set()
        """The ids of claims that live on it, or may."""
        self._up = False
        self._down: float | None = None
        """Since when it has no connection, if it had one."""
        self._nudged = 0.0
        self._silent: float | None = None
        """Since when somebody waits and nothing was answered."""
        self._now = transport.now
        self._transport = transport
        self._opened = transport.reply()
        self._ear = ear
        # Reconnecting is the driver's; no request is ever sent twice by it. It would wait a whole
        # timeout for a host that is silent, and come to the next one with a session that is over.
        retry = KazooRetry(max_tries=-1, delay=0.02, max_delay=0.5)
        patience = min(max(timeout / (address.hosts.count(",") + 1), PATIENCE[0]), PATIENCE[1])
        self._handler = Handler(address.tls)
        self._client = KazooClient(
            hosts=address.hosts,
            timeout=patience,
            handler=self._handler,
            connection_retry=retry,
            auth_data=address.login,
        )
        self._handler.waiting = lambda: self._client._queue  # noqa: SLF001  # kazoo has no other
        self._client.add_listener(self._changed)
        connection = self._client._connection  # noqa: SLF001  # nobody else is told the timeout
        self._invoke, connection._invoke = connection._invoke, self._spy  # noqa: SLF001  # the same
        self._reading = Reading(self._client)
        self.acl = address.acl
        self._client.start_async()

    def _spy(self, timeout: float, request: object, xid: int | None = None) -> Any:  # noqa: ANN401  # kazoo's
        """Ask for our timeout, which is not the one for connecting, and hear the server's."""
        if isinstance(request, Connect):
            request = Opening(*request._replace(time_out=self.asked))
        elif isinstance(request, Auth):
            request = Login(*request)
        answer = survive(lambda: self._invoke(timeout, request, xid))
        if isinstance(request, Connect):
            if not isinstance(answer[0].passwd, bytes):  # kazoo's thread would end of it
                raise ConnectionDropped("a session without a password")
            self.negotiated = answer[0].time_out
        return answer

    def _changed(self, state: str) -> None:
        if self.lost:
            return
        self._silent = None
        if state == KazooState.CONNECTED and self.claims and self.negotiated < self.asked:
            # This server keeps the session for less than its holders believe: other bounds. They
            # are told first, and their nodes stay for the shorter time.
            self.shortened = True
            state = KazooState.LOST
        if state == KazooState.CONNECTED:
            self._up, self._down = True, None
            self._opened.set()
        else:
            self.watched.clear()  # a watch ends with its connection
            self.changes += 1
            if self._up:
                self._up, self._down = False, self._now()
                self._opened = self._transport.reply()
        if state == KazooState.LOST:
            self.lost = True
            self.refused = self._client.client_state == KeeperState.AUTH_FAILED
            self._opened.set()
        self._ear.told(self, state)

    @property
    def timeout(self) -> float:
        """Seconds that the server keeps the session without a sign of life."""
        return self.negotiated / 1000

    @property
    def usable(self) -> bool:
        """Whether a request would be sent at once."""
        return self._up and not self.lost

    @property
    def silent(self) -> bool:
        """Whether somebody waits, and nothing was answered for a while."""
        since = self._silent
        return since is not None and self._now() - since > NUDGE

    async def ready(self, deadline: float) -> None:
        """Wait for a connection: what is not sent need not be doubted."""
        if not self.usable:
            self._outlive()
            try:
                await self._transport.wait(self._opened, deadline)
            except Late:
                why = f": {self._handler.trouble}" if self._handler.trouble else ""
                said = f"no connection to ZooKeeper at {self.where} in time{why}"
                raise EngineUnavailable(said, sent=False) from None
            self.check()

    def _outlive(self) -> None:
        """Give a session up that has been without a connection for long: it has expired.

        It is not for the driver to find out. Replies whose transaction numbers were garbled, higher
        than any that the ensemble has given, keep every server from taking their client back.
        """
        down, longest = self._down, max(OUTLIVED, self.timeout * 2.0)
        if down is not None and not self.lost and self._now() > down + longest:
            self.lost = True
            self._opened.set()
            self._ear.told(self, KazooState.LOST)

    def check(self) -> None:
        """Raise what keeps a request from being sent now."""
        if self.refused:
            raise EngineRefused(f"ZooKeeper at {self.where}: the authentication failed")
        if self.lost:
            raise SessionLost
        if not self._up:
            said = f"the connection to ZooKeeper at {self.where} is interrupted"
            raise EngineUnavailable(said, sent=False)

    def prove(self, sent: float) -> None:
        """Note that a transaction of this session was committed, which was sent then (see proof).

        Nothing else moves the anchor: a leader that was replaced answers all the rest by itself.
        """
        self.anchor = max(self.anchor, sent)

    def send(self, transport: Transport, request: object) -> Reply:
        """Send a request behind all that were sent before."""
        reply = transport.reply()
        # kazoo's own methods would answer by way of a second thread, and know no containers.
        self._client._call(request, reply)  # noqa: SLF001  # see above
        return reply

    async def settle(self, transport: Transport, reply: Reply, deadline: float) -> Any:  # noqa: ANN401  # see Reply
        """Wait for a reply, and say in our words what went wrong."""
        try:
            answer = whole(await self._nudging(transport, reply, deadline))
        except Late:
            said = f"ZooKeeper at {self.where}: no answer in time"
            raise EngineUnavailable(said, sent=True) from None
        except (NoNodeError, NodeExistsError, BadVersionError):
            self._silent = None
            raise
        except Exception as error:
            if not isinstance(error, KazooException):
                self._cut()
            raise failed(error, self.where) from error
        self._silent = None
        return answer

    async def _nudging(self, transport: Transport, reply: Reply, deadline: float) -> Any:  # noqa: ANN401  # see Reply
        """Wait, and poke a server that does not answer.

        ZooKeeper 3.8.0 at times forgets a session's second write under way until anything else
        comes in (its CommitProcessor sleeps on it): seen about once in 4,000 pairs of writes.
        """
        now = self._now()
        self._silent = now if self._silent is None else self._silent
        if now - self._silent > self.timeout / 2.0:
            self._cut()
        pause = NUDGE
        while (soon := self._now() + pause) < deadline:
            try:
                return await transport.wait(reply, soon)
            except Late:
                if self.usable and self._now() >= self._nudged + NUDGE:
                    self._nudged = self._now()
                    self.send(transport, Exists("/", None))
                pause *= 2.0
        return await transport.wait(reply, deadline)

    def _cut(self) -> None:
        """End a connection that is silent: kazoo tries the next server then. It would not notice by
        itself, since each of our requests keeps it from asking whether anybody is there.
        """
        self._silent = None
        current = self._client._connection._socket  # noqa: SLF001  # there is no other way to it
        if self._up and current is not None:
            with contextlib.suppress(OSError):
                current.shutdown(socket.SHUT_RDWR)

    def watcher(self, event: WatchedEvent) -> None:
        """Hear of a watch that fired."""
        if event.path is not None:
            self.watched.discard(event.path)
            self._ear.heard(self, event)

    def command(self, word: str) -> str:
        """Send a four-letter word on a connection of its own. Blocking."""
        return self._handler.command(word)

    def retire(self, *, alive: bool = False) -> Reply:
        """Close the session in a thread of its own: kazoo waits ten seconds and more. Return what
        is set when that has ended. `alive`: only leave it, so that its nodes stay for their time.
        """
        self.lost = True
        ended = self._transport.reply()

        def stop() -> None:
            with contextlib.suppress(Exception):
                if alive:
                    self._client._stopped.set()  # noqa: SLF001  # kazoo knows no other farewell
                    self._cut()
                    self._client._safe_close()  # noqa: SLF001  # the same
                else:
                    self._client.stop()
            with contextlib.suppress(Exception):
                self._client.close()
            ended.set()

        threading.Thread(target=stop, name="lockfast-farewell", daemon=True).start()
        return ended

    def forget(self) -> None:
        """Let go of the sockets in a forked child, without a word to the server."""
        self.lost = True
        atexit.unregister(self._handler.stop)
        connection = self._client._connection  # noqa: SLF001  # its threads are not in this process
        for each in (connection._socket, connection._read_sock, connection._write_sock):  # noqa: SLF001  # the same
            if each is not None:
                each.close()
