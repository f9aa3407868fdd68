"""One ZooKeeper session, on one connection at a time: a kazoo client that serves one session only.

kazoo alone would replace a lost session by a new one, and send a request that was meant for the old
session on the new one. A `Session` ends when its session is lost, and the engine opens the next.
"""

from __future__ import annotations

import atexit
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
from lockfast.engines.zookeeper.hanging_up import hang_up, stop
from lockfast.engines.zookeeper.kazoo_handler import Handler
from lockfast.engines.zookeeper.kazoo_replies import Reading, survive
from lockfast.engines.zookeeper.kazoo_requests import Login, Opening
from lockfast.engines.zookeeper.transport import Late, Reply, Transport
from lockfast.engines.zookeeper.url import Address
from lockfast.errors import EngineRefused, EngineUnavailable

PATIENCE = (1.5, 5.0)  # seconds that connecting to one host may take: lower and upper bound
OUTLIVED = 10.0  # seconds offline (two timeouts, if longer) after which a session is given up
NUDGE = 0.05  # seconds without an answer after which another request is sent, to wake the server


class Ear(Protocol):
    """Receives the callbacks of a session, in kazoo's threads."""

    def told(self, session: Session, state: str) -> None:
        """Handle a new state of the session."""

    def heard(self, session: Session, event: WatchedEvent) -> None:
        """Handle a watch that fired."""


class Session:
    """One session. The server answers its requests in the order in which they are sent."""

    def __init__(
        self,
        address: Address,
        timeout: float,
        transport: Transport,
        ear: Ear,
    ) -> None:
        """Start to connect. `timeout`: the session's, in seconds. `ear`: gets its callbacks."""
        self.where = address.hosts
        self.asked = int(timeout * 1000)
        self.negotiated = 0
        """The session timeout that the server granted, in milliseconds. We requested `asked`."""
        self.id = 0
        """The number that the server has given the session; 0 before the first connection. kazoo
        tells it only while it is connected, and would hide whose a node is that was read before."""
        self.lost = False
        self.shortened = False
        """Whether it was given up because a server granted a shorter timeout than `asked`."""
        self.refused = False
        self.anchor = 0.0
        """The instant from which on the session is known to live for its timeout: see `prove`."""
        self.watched: set[str] = set()
        self.changes = 0
        """How often the stored token base may have changed."""
        self.checked = -1
        """The value of `changes` when the base was last read. A flag would let other claims pass
        before the first one has read the base, and would miss a change during that read.
        """
        self.users = 0
        """How many calls use the session now. The pool counts them, under its lock."""
        self.claims: set[str] = set()
        """The ids of claims that have a node in this session, or may have one."""
        self._up = False
        self._down: float | None = None
        """When the connection was lost; None while connected and before the first connection."""
        self._nudged = 0.0
        self._silent: float | None = None
        """Since when callers wait and the server answers nothing; None if it does."""
        self._now = transport.now
        self._transport = transport
        self._opened = transport.reply()
        self._ear = ear
        # kazoo reconnects by itself, and sends no request twice. If it waited a whole session
        # timeout for a silent host, the session would expire before it tries the next host.
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
        self._handler.waiting = lambda: self._client._queue  # noqa: SLF001  # kazoo has no public one
        self._client.add_listener(self._changed)
        connection = self._client._connection  # noqa: SLF001  # kazoo has no hook for the timeout
        self._invoke, connection._invoke = connection._invoke, self._spy  # noqa: SLF001  # the same
        self._reading = Reading(self._client)
        self.acl = address.acl
        self._client.start_async()

    def _spy(self, timeout: float, request: object, xid: int | None = None) -> Any:  # noqa: ANN401  # kazoo's
        """Request our session timeout in kazoo's handshake, and note what the server grants."""
        if isinstance(request, Connect):
            request = Opening(*request._replace(time_out=self.asked))
        elif isinstance(request, Auth):
            request = Login(*request)
        answer = survive(lambda: self._invoke(timeout, request, xid))
        if isinstance(request, Connect):
            if not isinstance(answer[0].passwd, bytes):  # it would end kazoo's thread
                raise ConnectionDropped("a session without a password")
            self.negotiated = answer[0].time_out
            self.id = self.id or answer[0].session_id  # it does not change while the session lives
        return answer

    def _changed(self, state: str) -> None:
        if self.lost:
            return
        self._silent = None
        if state == KazooState.CONNECTED and self.claims and self.negotiated < self.asked:
            # This server has other bounds, and keeps the session for less than the holders' ttl. So
            # the holders lose their leases now, and their nodes stay for the shorter timeout.
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
        """The session timeout that the server granted, in seconds."""
        return self.negotiated / 1000

    @property
    def usable(self) -> bool:
        """Whether a request would be sent at once."""
        return self._up and not self.lost

    @property
    def silent(self) -> bool:
        """Whether callers wait, and the server has answered nothing for `NUDGE` seconds."""
        since = self._silent
        return since is not None and self._now() - since > NUDGE

    async def ready(self, deadline: float) -> None:
        """Wait for a connection. A request that was not sent needs no tombstone."""
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
        """Give up a session that has had no connection for so long that it has expired.

        kazoo may never find out. After garbled replies with transaction numbers above any that the
        ensemble has given, every server refuses the client.
        """
        down, longest = self._down, max(OUTLIVED, self.timeout * 2.0)
        if down is not None and not self.lost and self._now() > down + longest:
            self.lost = True
            self._opened.set()
            self._ear.told(self, KazooState.LOST)

    def check(self) -> None:
        """Raise the reason why no request can be sent now, if there is one.

        The reaper calls only this, and would otherwise ask for ever for a session that kazoo does
        not know to have expired.
        """
        self._outlive()
        if self.refused:
            raise EngineRefused(f"ZooKeeper at {self.where}: the authentication failed")
        if self.lost:
            raise SessionLost
        if not self._up:
            said = f"the connection to ZooKeeper at {self.where} is interrupted"
            raise EngineUnavailable(said, sent=False)

    def prove(self, sent: float) -> None:
        """Note that a transaction, sent at that instant, was committed (see proof.py).

        Nothing else moves the anchor. A leader that was replaced can answer the rest by itself.
        """
        self.anchor = max(self.anchor, sent)

    def send(self, transport: Transport, request: object) -> Reply:
        """Send a request and return its reply. The server handles it after all earlier ones."""
        reply = transport.reply()
        # kazoo's own methods pass answers through a second thread, and create no containers.
        self._client._call(request, reply)  # noqa: SLF001  # see above
        return reply

    async def settle(self, transport: Transport, reply: Reply, deadline: float) -> Any:  # noqa: ANN401  # see Reply
        """Wait for a reply and return it. Translate kazoo's errors, except those about a node."""
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
        """Wait for a reply, and send another request to a server that does not answer.

        ZooKeeper 3.8.0 sometimes leaves the second of a session's writes unanswered until another
        request arrives (its CommitProcessor sleeps): seen about once in 4,000 pairs of writes.
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
        """Close the connection, so that kazoo tries the next server. kazoo does not notice a silent
        server by itself, because each of our requests postpones its ping.
        """
        self._silent = None
        if self._up:
            hang_up(self._client)

    def watcher(self, event: WatchedEvent) -> None:
        """Pass a watch that fired on to the ear."""
        if event.path is not None:
            self.watched.discard(event.path)
            self._ear.heard(self, event)

    def command(self, word: str) -> str:
        """Send a four-letter command on a separate connection, and return its answer. Blocking."""
        return self._handler.command(word)

    def retire(self, *, alive: bool = False) -> Reply:
        """Close the session in a separate thread, because kazoo waits ten seconds and more. Return
        a reply that is set at the end. `alive`: only disconnect, and leave its nodes to time out.
        """
        self.lost = True
        ended = self._transport.reply()

        def farewell() -> None:
            stop(self._client, alive=alive)
            ended.set()

        threading.Thread(target=farewell, name="lockfast-farewell", daemon=True).start()
        return ended

    def forget(self) -> None:
        """Close the sockets in a forked child, without sending anything to the server."""
        self.lost = True
        atexit.unregister(self._handler.stop)
        connection = self._client._connection  # noqa: SLF001  # its threads are not in this process
        for each in (connection._socket, connection._read_sock, connection._write_sock):  # noqa: SLF001  # the same
            if each is not None:
                each.close()
