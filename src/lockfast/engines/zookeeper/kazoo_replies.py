"""Checks what kazoo reads: an unreadable answer ends the connection, and not the session.

An answer that kazoo does not understand ends its thread for good. No caller gets an error, every
request waits until its deadline, and all leases are lost. With these checks, a broken or hostile
server does no more harm than a lost connection, after which kazoo connects again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionDropped, ConnectionLoss, KazooException
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.serialization import Create2, Exists, GetACL, GetChildren, GetData, Transaction
from kazoo.protocol.states import ZnodeStat

from lockfast.core.token import LIMIT
from lockfast.engines.zookeeper.transport import Reply

T = TypeVar("T")
LARGEST = 64 * 2**20  # bytes of an answer; a server's own limit is 1 MB by default
INT = 4  # bytes of a number
JUMP = 2**20  # transactions between two answers; a larger jump counts if the next answer agrees
KNOWN = (KazooException, KazooTimeoutError, OSError)  # errors that kazoo's thread survives


def _is_stat(value: object) -> bool:
    # The root's czxid is 0. A token is a czxid plus a base, and each is below half of the limit.
    return isinstance(value, ZnodeStat) and 0 <= value.czxid < LIMIT // 2


def _pair(first: type | tuple[type, ...]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value[0], first) and _is_stat(value[1])


def _is_whole(buffer: bytes, offset: int) -> bool:
    """Return whether a list of names is complete. kazoo reads a truncated last name without an
    error, and a claim whose name is truncated looks like one that is gone.
    """
    end, place = len(buffer), offset + INT
    if place > end:
        return False
    for _ in range(int.from_bytes(buffer[offset:place], "big", signed=True)):
        length = int.from_bytes(buffer[place : place + INT], "big", signed=True)
        place += INT + length
        if length < 0 or place > end:
            return False
    return place == end


SHAPES: dict[type, Callable[[Any], bool]] = {
    GetChildren: lambda value: all(isinstance(each, str) for each in value),
    GetData: _pair((bytes, type(None))),
    GetACL: _pair(list),
    Create2: _pair(str),
    Exists: lambda value: value is None or _is_stat(value),
    Transaction: bool,
}
"""Checks of the answer, by type of request. A server may send null for a string, and any number."""


class Checked:
    """Passes an answer of the right shape on to a reply, and an error in place of any other."""

    __slots__ = ("_is_sane", "_reply")

    def __init__(self, reply: Reply, is_sane: Callable[[Any], bool]) -> None:
        """Pass on the answers for which `is_sane` returns True."""
        self._reply = reply
        self._is_sane = is_sane

    def set(self, value: Any = None) -> None:  # noqa: ANN401  # whatever the server said
        """Check the answer, and set it or an error."""
        try:
            sane = self._is_sane(value)
        except (TypeError, IndexError):
            sane = False
        if sane:
            self._reply.set(value)
        else:
            self._reply.set_exception(ValueError("not what was asked for"))

    def set_exception(self, error: BaseException) -> None:
        """Pass the error on."""
        self._reply.set_exception(error)


class Reading:
    """Replaces three methods by which the connection of one kazoo client reads."""

    def __init__(self, client: KazooClient) -> None:
        """Replace the methods, and keep the originals to call them."""
        self._client = client
        self._seen = 0
        connection = client._connection  # noqa: SLF001  # kazoo has no hook for it
        self._bytes, connection._read = connection._read, self._bounded  # noqa: SLF001  # the same
        self._answer = connection._read_response  # noqa: SLF001  # the same
        connection._read_response = self._in_order  # noqa: SLF001  # the same
        self._any = connection._read_socket  # noqa: SLF001  # the same
        connection._read_socket = self._survived  # noqa: SLF001  # the same

    def _bounded(self, length: int, timeout: float) -> Any:  # noqa: ANN401  # kazoo's
        """Read `length` bytes. The server sent this number, so it may be absurd."""
        if not 0 <= length <= LARGEST:
            raise ConnectionDropped(f"an answer of {length} bytes")
        return self._bytes(length, timeout)

    def _in_order(self, header: Any, buffer: bytes, offset: int) -> Any:  # noqa: ANN401  # kazoo's
        """Read an answer. Drop the connection if it is not the answer that is due.

        A server that a session has moved to may leave out an answer (ZOOKEEPER-2684). ZooKeeper's
        own client then reconnects. kazoo's thread would end, and all leases with it (kazoo #254).

        A client tells each server that it connects to the last transaction it has seen. A server
        refuses a client that has seen a later one than itself. So a single garbled transaction
        number must not count.
        """
        pending = self._client._pending  # noqa: SLF001  # what kazoo waits for
        if not pending or pending[0][2] != header.xid:
            awaited = pending[0][2] if pending else "none"
            raise ConnectionDropped(f"expected answer {awaited}, and got {header.xid}")
        request, reply, xid = pending[0]
        if type(request) is GetChildren and header.err == 0 and not _is_whole(buffer, offset):
            raise ConnectionDropped("a list that is cut off")
        if type(request) in SHAPES and reply is not None:
            pending[0] = request, Checked(reply, SHAPES[type(request)]), xid
        believed = self._client.last_zxid
        try:
            return self._answer(header, buffer, offset)
        finally:
            if self._seen and header.zxid > self._seen + JUMP:
                self._client.last_zxid = believed
            self._seen = header.zxid

    def _survived(self, timeout: float) -> Any:  # noqa: ANN401  # kazoo's
        """Read from the socket. Any error ends at most the connection."""
        pending = self._client._pending  # noqa: SLF001  # the same
        first = pending[0] if pending else (None, None, 0)
        try:
            return survive(lambda: self._any(timeout))
        except ConnectionDropped:
            if first[1] is not None and not (pending and pending[0] is first):
                first[1].set_exception(ConnectionLoss())  # kazoo has popped it already
            raise


def survive(work: Callable[[], T]) -> T:
    """Return what `work` returns. Turn errors that would end kazoo's thread into a dropped
    connection.
    """
    try:
        return work()
    except KNOWN:
        raise
    except Exception as error:
        raise ConnectionDropped(f"an answer that cannot be read: {error!r}") from error
