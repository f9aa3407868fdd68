"""Times that several tests of the client's contract use, in seconds."""

from __future__ import annotations

LONG = 30.0  # a ttl that no test waits for
SOON = 3.0  # far less than that ttl, and than a third of it
TTL = 1.5  # a ttl that a test outlasts: one lease expires, or is kept by its renewals
SLACK = 5.0  # what a busy machine may add
