"""One connection to a server, for threads and asyncio. Each step says what to wait for.

The socket never blocks. The transport waits for it, so that a deadline holds for a whole exchange,
however slowly the server sends its bytes.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import ssl
from collections.abc import Generator
from contextlib import suppress

from lockfast.engines.mysql.failures import AGAIN, distrusted, failed
from lockfast.engines.mysql.greeting import GREETING, UNKNOWN, greeted
from lockfast.engines.mysql.login import Identity, LoginRefused, StartTls, Tls, login
from lockfast.engines.mysql.packets import BrokenProtocol, Packets
from lockfast.engines.mysql.results import IN_TRANSACTION, Reply, Row, ServerError
from lockfast.engines.mysql.url import Address, Mode, Place
from lockfast.engines.sockets import keep_alive
from lockfast.engines.sql.steps import READ, WRITE, Steps
from lockfast.errors import EngineError, EngineRefused, EngineUnavailable

QUERY, QUIT = b"\x03", b"\x01\0\0\0\x01"
CHUNK = 65536
# A lock is waited for 2 seconds, not 50: a server does not notice that a client has given up. The
# rest undoes what `init_connect` or a default may have set. With sql_safe_updates or a small
# max_join_size, the server would refuse the statements for a batch.
SESSION = (
    "SET SESSION autocommit = 1, innodb_lock_wait_timeout = 2, completion_type = 0, "
    "sql_safe_updates = 0, sql_big_selects = 1"
)
LIMITED = f"{SESSION}, max_statement_time = 8"  # MariaDB has a limit for CALL too


class Link:
    """A connection that is open, or being opened."""

    def __init__(self, address: Address, place: Place, found: str) -> None:
        """Open nothing yet. `found`: the address that was looked up for the host."""
        self.where = f"MySQL at {address.at(place)}"
        self.greeting = UNKNOWN
        self.used = 0.0
        """When the last exchange ended."""
        self.dialed = False
        """Whether the server has accepted the connection."""
        self._address, self.place, self.host = address, place, found
        self._packets = Packets()
        self._reply: Reply | None = None
        self._behind = 0  # statements that were sent behind the one that `_reply` answers
        self._out = b""
        self._usable = True
        family = socket.AF_UNIX if found.startswith("/") else _family(found)
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        self._socket.setblocking(False)  # noqa: FBT003  # the socket's own

    def fileno(self) -> int:
        """Return the descriptor to wait for."""
        return self._socket.fileno()

    @property
    def idle(self) -> bool:
        """Whether the connection may be used again, because the last exchange is complete."""
        return self._usable and self._reply is None

    def alive(self) -> bool:
        """Return whether the server has neither closed the idle connection nor sent anything."""
        poll = select.poll()
        poll.register(self.fileno(), select.POLLIN)
        return not poll.poll(0)

    # --- connecting -----------------------------------------------------------------------------

    def connect(self, password: str | None) -> Steps:
        """Connect, log in, and read the server's clock."""
        try:
            yield from self._dial()
            yield from self._log_in(password)
            self.greeting = greeted((yield from self._run(GREETING)))
            yield from self._run(LIMITED if self.greeting.mariadb else SESSION)
        except ServerError as error:
            raise self._unconnected(error) from error
        except LoginRefused as error:
            raise EngineRefused(f"{self.where}: {error}") from error
        except ssl.SSLCertVerificationError as error:
            raise distrusted(error, self.where) from error
        except EngineUnavailable as error:  # it is an OSError too, and names the server already
            raise EngineUnavailable(f"no connection to {error.message}", sent=False) from error
        except (OSError, BrokenProtocol, ValueError) as error:
            raise EngineUnavailable(
                f"no connection to {self.where}: {said(error)}", sent=False
            ) from error

    def _dial(self) -> Steps:
        if self.host.startswith("/"):
            code = self._socket.connect_ex(self.host)
        else:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            keep_alive(self._socket)
            code = self._socket.connect_ex((self.host, self.place.port))
        if code in {errno.EINPROGRESS, errno.EAGAIN}:
            yield WRITE
            code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, os.strerror(code))
        self.dialed = True

    def _log_in(self, password: str | None) -> Steps:
        mode = self._address.mode_at(self.place.host)
        tls = Tls.ALWAYS
        if mode in {Mode.DISABLED, Mode.PREFERRED}:
            tls = Tls.NEVER if mode is Mode.DISABLED else Tls.OFFERED
        steps = login(
            Identity(
                self._address.user,
                (password or "").encode(),
                self._address.database,
                tls,
                # By default, PREFERRED is for this machine only, where nobody can be in between.
                trusted=mode is Mode.VERIFY_IDENTITY or self._address.mode is None,
                private=self.host.startswith("/"),
            )
        )
        wanted = next(steps)
        try:
            while True:
                if wanted is None:
                    wanted = steps.send((yield from self._packet()))
                elif isinstance(wanted, StartTls):
                    yield from self._encrypt(mode)
                    wanted = next(steps)
                else:
                    self._out = self._packets.framed(wanted)
                    yield from self._flush()
                    wanted = next(steps)
        except StopIteration:
            return

    def _encrypt(self, mode: Mode) -> Steps:
        if not self._packets.empty:  # somebody has put in bytes that the login would trust
            raise BrokenProtocol("bytes before the encryption began")
        secure = self._address.context(mode).wrap_socket(
            self._socket, server_hostname=self.place.host, do_handshake_on_connect=False
        )
        self._socket = secure
        while True:
            try:
                secure.do_handshake()
            except ssl.SSLWantReadError:
                yield READ
            except ssl.SSLWantWriteError:
                yield WRITE
            else:
                return

    def _packet(self) -> Generator[int, None, bytes]:
        while (packet := self._packets.next()) is None:
            if not self._fill():
                yield READ
        return packet

    def _flush(self) -> Steps:
        while not self._write():
            yield READ | WRITE

    def _run(self, sql: str) -> Generator[int, None, list[Row]]:
        events = self.send(sql.encode())
        while True:
            yield events
            rows, events = self.receive()
            if rows is not None:
                return rows

    def limited(self, sql: bytes, seconds: float) -> bytes:
        """Return a statement that the server ends after so many seconds. Otherwise it would wait
        for its bucket and commit although its client has given up. On a busy server, such
        statements would keep the others from being answered. MySQL has no such limit for CALL.
        """
        if not self.greeting.mariadb:
            return sql
        return b"SET STATEMENT max_statement_time = %.3f FOR %s" % (seconds, sql)

    # --- exchanges ------------------------------------------------------------------------------

    def send(self, sql: bytes, *, behind: bool = False) -> int:
        """Send a statement, and return what to wait for. `behind`: another one is under way. The
        server runs this one as soon as that has ended, and `receive` returns its reply next.
        """
        try:
            if behind:
                self._behind += 1
                self._out += Packets().framed(QUERY + sql)
            else:
                self._packets.begin()
                self._reply = Reply()
                self._out = self._packets.framed(QUERY + sql)
            return READ if self._write() else READ | WRITE
        except (OSError, BrokenProtocol) as broken:
            raise self._broken(broken) from broken

    def receive(self) -> tuple[list[Row] | None, int]:
        """Read from the socket, once it is ready. Return the rows of the reply when all have
        arrived. Until then, return None and what to wait for. Raise `ServerError` if the server
        answers with an error.
        """
        reply = self._reply
        try:
            if self._out and not self._write():
                return None, READ | WRITE
            if reply is None:
                raise BrokenProtocol("a reply to nothing")
            self._fill()
            if not reply.read(self._packets):
                return None, READ
        except ServerError as error:
            self._next()
            if error.code not in AGAIN:
                self._usable = False
            raise
        except (OSError, BrokenProtocol) as broken:
            raise self._broken(broken) from broken
        self._next()
        # In a transaction, the next operation would be refused. Bytes behind the last reply would
        # be read as the reply to the next request.
        surplus = self._reply is None and not self._packets.empty
        if reply.status & IN_TRANSACTION or surplus:
            self._usable = False
        return reply.rows, READ

    def _next(self) -> None:
        """Begin the reply to the statement that was sent behind, if there is one."""
        self._reply = None
        if self._behind:
            self._behind -= 1
            self._reply = Reply()
            self._packets.follow()

    def _write(self) -> bool:
        """Send what is left to send, and return whether all of it was sent."""
        while self._out:
            try:
                self._out = self._out[self._socket.send(self._out) :]
            except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
                return False
        return True

    def _fill(self) -> bool:
        """Read some of what has arrived, and return whether that was anything. Not all of it: the
        caller must look at the clock while a server sends without end.
        """
        heard = False
        while True:
            try:
                data = self._socket.recv(CHUNK)
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return heard
            if not data:
                if heard:
                    return True
                raise ConnectionResetError("the server closed the connection")
            self._packets.feed(data)
            heard = True
            # TLS may hold more of a record, which the socket does not show.
            if not (isinstance(self._socket, ssl.SSLSocket) and self._socket.pending()):
                return True

    def _broken(self, error: Exception) -> EngineUnavailable:
        self._usable = False
        return EngineUnavailable(f"{self.where}: {said(error)}", sent=True)

    def _unconnected(self, error: ServerError) -> EngineError:
        found = failed(error.code, error.text, self.where)
        if isinstance(found, EngineUnavailable):  # whatever it was, no request was sent
            return EngineUnavailable(f"no connection to {found.message}", sent=False)
        return found

    def close(self) -> None:
        """Close the connection, and tell the server if it waits for a statement."""
        if self.idle and self.used:
            with suppress(OSError):
                self._socket.send(QUIT)
        self._usable = False
        self._socket.close()

    def forget(self) -> None:
        """Close only the descriptor, in a forked child: the parent uses the connection."""
        self._usable = False
        os.close(self._socket.detach())


def _family(found: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in found else socket.AF_INET


def said(error: Exception) -> str:
    """Return what an error says, or at least what it is: some say nothing."""
    return str(error) or type(error).__name__
