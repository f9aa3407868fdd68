"""The reply to a statement: result sets with their rows, or an error. No I/O."""

from __future__ import annotations

from lockfast.engines.mysql.packets import BrokenProtocol, Packets

Row = list[bytes | None]

OK, ERROR, END, LOCAL_FILE, NULL = 0x00, 0xFF, 0xFE, 0xFB, 0xFB
END_SIZE = 9  # a longer packet that begins with END is a row with a huge column
MORE, IN_TRANSACTION = 0x0008, 0x0001  # bits of the server's status
WIDTHS = {0xFC: 2, 0xFD: 3, 0xFE: 8}  # bytes of a number that follow its first byte
START, COLUMNS, ROWS = range(3)
MOST_COLUMNS, MOST_ROWS = 64, 4096
"""More than any of our statements returns. A row costs far more memory than its bytes in a packet,
so the limit of the bytes alone would let a server fill the memory."""
NO_CODE = frozenset([0, 0xFFFF])
"""Numbers that are no errors. MariaDB uses the second for progress, which we do not ask for."""


class ServerError(Exception):  # never leaves the engine
    """The server answered with an error. Its number tells what to do."""

    def __init__(self, code: int, text: str) -> None:
        """Keep the number and the text."""
        super().__init__(f"{text} [{code}]")
        self.code = code
        self.text = text


class Reply:
    """A reply that is being read. `rows` are those of the last result set that had columns."""

    __slots__ = ("_columns", "_left", "_state", "rows", "status")

    def __init__(self) -> None:
        """Start with nothing read."""
        self.rows: list[Row] = []
        self.status = 0
        self._state = START
        self._columns = 0
        self._left = 0

    def read(self, packets: Packets) -> bool:
        """Read the packets that have arrived, and return whether the reply is complete."""
        while (packet := packets.next()) is not None:
            first = packet[0]
            if first == ERROR:
                raise error_of(packet)
            if self._state == ROWS and not (first == END and len(packet) < END_SIZE):
                self._add(packet)
            elif self._state == START:
                if self._start(packet):
                    return True
            elif self._left:  # the description of a column
                self._left -= 1
            elif first != END:
                raise BrokenProtocol("no end of the columns")
            elif self._state == COLUMNS:
                self._state = ROWS
            elif self._ends(_status(packet, 3)):
                return True
        return False

    def _add(self, packet: bytes) -> None:
        if len(self.rows) == MOST_ROWS:
            raise BrokenProtocol(f"more than {MOST_ROWS} rows")
        self.rows.append(_row(packet, self._columns))

    def _start(self, packet: bytes) -> bool:
        """Read the first packet of a result, and return whether the reply is complete."""
        if packet[0] == OK:
            _, at = number(packet, 1)
            _, at = number(packet, at)
            return self._ends(_status(packet, at))
        if packet[0] in (LOCAL_FILE, END):  # we asked for no file, and never send one
            raise BrokenProtocol("neither a result nor an error")
        self._columns, end = number(packet, 0)
        if end != len(packet) or not 0 < self._columns <= MOST_COLUMNS:
            raise BrokenProtocol("not a number of columns")
        self._left, self.rows, self._state = self._columns, [], COLUMNS
        return False

    def _ends(self, status: int) -> bool:
        self.status, self._state = status, START
        return not status & MORE


def error_of(packet: bytes) -> ServerError:
    """Read an error packet. Those before the login have no SQLSTATE.

    Without a number there is no error: an error says that nothing was done, and a packet that was
    cut does not.
    """
    code = int.from_bytes(packet[1:3], "little")
    if len(packet) < 3 or code in NO_CODE:  # noqa: PLR2004  # its kind, and a number of two bytes
        raise BrokenProtocol("an error without a number")
    text = packet[9:] if packet[3:4] == b"#" else packet[3:]
    return ServerError(code, text[:500].decode("utf-8", "replace"))


def number(packet: bytes, at: int) -> tuple[int, int]:
    """Read a number of one to nine bytes, and return it with the place behind it."""
    if at >= len(packet):
        raise BrokenProtocol("a packet that is too short")
    first = packet[at]
    if first < NULL:
        return first, at + 1
    end = at + 1 + WIDTHS.get(first, len(packet))
    if end > len(packet):
        raise BrokenProtocol("a number that cannot be read")
    return int.from_bytes(packet[at + 1 : end], "little"), end


def _status(packet: bytes, at: int) -> int:
    """Read the server's status, which says whether the reply goes on."""
    if at + 2 > len(packet):
        raise BrokenProtocol("a packet without a status")
    return int.from_bytes(packet[at : at + 2], "little")


def _row(packet: bytes, columns: int) -> Row:
    row: Row = []
    at = 0
    for _ in range(columns):
        if packet[at : at + 1] == b"\xfb":
            row.append(None)
            at += 1
            continue
        length, at = number(packet, at)
        end = at + length
        if end > len(packet):
            raise BrokenProtocol("a row that is too short")
        row.append(packet[at:end])
        at = end
    if at != len(packet):
        raise BrokenProtocol("a row that is too long")
    return row
