"""How kazoo's connection reads: what cannot be read costs the connection, and not the session.

kazoo's thread ends on an answer that it does not understand, for good: nobody is told, every
request waits for its deadline, and all leases are lost. Whatever a broken or hostile server sends
must do no more harm than a connection that is lost, after which kazoo connects anew.
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
LARGEST = 64 * 2**20  # bytes of an answer; a server's own limit is one megabyte as it comes
INT = 4  # bytes of a number
JUMP = 2**20  # transactions between two answers; more are believed when the next answer says so too
KNOWN = (KazooException, KazooTimeoutError, OSError)  # what kazoo's thread survives


def _is_stat(value: object) -> bool:
    # Of the root it is 0. It becomes a token, with a base that is below half of the limit too.
    return isinstance(value, ZnodeStat) and 0 <= value.czxid < LIMIT // 2


def _pair(first: type | tuple[type, ...]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value[0], first) and _is_stat(value[1])


def _is_whole(buffer: bytes, offset: int) -> bool:
    """Return whether a list of names is as long as it says. kazoo cuts the last name short without
    a word, and a claim whose name is cut looks like one that is gone.
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
"""What an answer must be: a string may be null on the wire, and a number anything."""


class Checked:
    """A reply that takes in an answer of the right shape, and else an error."""

    __slots__ = ("_is_sane", "_reply")

    def __init__(self, reply: Reply, is_sane: Callable[[Any], bool]) -> None:
        """Pass on what is sane."""
        self._reply = reply
        self._is_sane = is_sane

    def set(self, value: Any = None) -> None:  # noqa: ANN401  # whatever the server said
        """Receive the answer."""
        try:
            sane = self._is_sane(value)
        except (TypeError, IndexError):
            sane = False
        if sane:
            self._reply.set(value)
        else:
            self._reply.set_exception(ValueError("not what was asked for"))

    def set_exception(self, error: BaseException) -> None:
        """Receive an error."""
        self._reply.set_exception(error)


class Reading:
    """Stands between one client of kazoo's and its connection."""

    def __init__(self, client: KazooClient) -> None:
        """Take kazoo's three methods over."""
        self._client = client
        self._seen = 0
        connection = client._connection  # noqa: SLF001  # kazoo has no hook for it
        self._bytes, connection._read = connection._read, self._bounded  # noqa: SLF001  # the same
        self._answer = connection._read_response  # noqa: SLF001  # the same
        connection._read_response = self._in_order  # noqa: SLF001  # the same
        self._any = connection._read_socket  # noqa: SLF001  # the same
        connection._read_socket = self._survived  # noqa: SLF001  # the same

    def _bounded(self, length: int, timeout: float) -> Any:  # noqa: ANN401  # kazoo's
        """Read so many bytes: the length is the server's word."""
        if not 0 <= length <= LARGEST:
            raise ConnectionDropped(f"an answer of {length} bytes")
        return self._bytes(length, timeout)

    def _in_order(self, header: Any, buffer: bytes, offset: int) -> Any:  # noqa: ANN401  # kazoo's
        """Read an answer, unless it is out of order.

        A server that a session has moved to may leave out an answer (ZOOKEEPER-2684). ZooKeeper's
        own client connects anew then; kazoo's thread would end, and all leases with it (#254).

        A client tells each server it connects to the last transaction it has seen, and no server
        takes back one that has seen more than itself: a single garbled number is not believed.
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
        """Read what has come."""
        pending = self._client._pending  # noqa: SLF001  # the same
        first = pending[0] if pending else (None, None, 0)
        try:
            return survive(lambda: self._any(timeout))
        except ConnectionDropped:
            if first[1] is not None and not (pending and pending[0] is first):
                first[1].set_exception(ConnectionLoss())  # kazoo has forgotten that one already
            raise


def survive(work: Callable[[], T]) -> T:
    """Read, and make of every error that would end kazoo's thread the end of a connection."""
    try:
        return work()
    except KNOWN:
        raise
    except Exception as error:
        raise ConnectionDropped(f"an answer that cannot be read: {error!r}") from error
