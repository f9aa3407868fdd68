"""How long a replica needs to end."""

from __future__ import annotations

from lockfast.port import CLOSING
from lockfast.service.server import DRAINING, FLUSHING
from lockfast.service.websocket import FLUSHING as FLUSHING_EACH

LONGEST = DRAINING + FLUSHING + FLUSHING_EACH + 2 * CLOSING
"""Seconds: clients leave, what is left is cut off, and the engine's connections are closed."""
