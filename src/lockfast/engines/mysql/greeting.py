"""The greeting of a server: what it says of itself when a client connects."""

from __future__ import annotations

from typing import NamedTuple

from lockfast.engines.mysql.procedures import NOW
from lockfast.engines.mysql.results import Row
from lockfast.engines.sql.words import END

GREETING = f"SELECT {NOW}, CONCAT(@@global.read_only), VERSION(), @@max_allowed_packet"
PACKETS = range(1024, 2**30 + 1)  # what a server accepts as max_allowed_packet


class Greeting(NamedTuple):
    """What a server said of itself when a client connected."""

    micros: int
    """Its clock in µs."""
    read_only: bool
    mariadb: bool
    packet: int
    """The largest packet in bytes that it accepts on this connection, and its longest text."""


UNKNOWN = Greeting(0, read_only=False, mariadb=False, packet=PACKETS.start)


def greeted(rows: list[Row]) -> Greeting:
    """Read the reply to GREETING."""
    ((micros, read_only, version, packet),) = rows
    found = Greeting(
        int(micros or b""),
        read_only not in {b"0", b"OFF"},
        b"MariaDB" in (version or b""),
        int(packet or b""),
    )
    if not 0 <= found.micros < END:
        raise ValueError("the server's clock cannot be read")
    if found.packet not in PACKETS:
        raise ValueError("max_allowed_packet cannot be read")
    return found
