"""The times and sizes that engines share."""

from __future__ import annotations

from typing import NewType

SHORTEST, LONGEST = 0.05, 86_400.0  # the bounds of a ttl, in seconds
LONGEST_WAIT = 10.0  # the longest `wait_ttl`: how long a crashed waiter can block its queue
RECORD = 4096  # the largest record of a break, in bytes
RECORDS = 16  # how many records of breaks are kept for a name: the newest
REMEMBERED = 86_400.0  # seconds for which records of breaks are kept
CLOSING = 0.5  # seconds that closing an engine may take
TOMB_MARGIN = 1.0  # seconds that a tombstone outlives the last moment at which a copy is applied
ATTACHED = 120.0  # seconds that `Departing.attach` is remembered for, beyond the ttl of the claim
CLIENT = 22  # how many digits of an id, of 32, name the client
ServerTime = NewType("ServerTime", int)
"""An instant of a server's clock, in the units of that clock."""
