"""The port: the interface that every engine implements, and the types of its arguments and replies.

An engine keeps the claims of each name in a queue, in the order of their tickets. All claims of a
queue are of one kind, and an engine refuses a claim of another kind. A claim is granted if and only
if all live claims ahead of it are granted, and its weight plus their weights is at most its own
capacity. `lockfast.core.queue` implements this rule, and the tests compare every engine with it.

What an engine stores carries the number of its format (`lockfast.core.record.FORMAT`). An engine
refuses a name whose live claims are stored in another format, with `EngineRefused`, and changes
nothing there.

Times: `deadline`, `not_after` and all other times from a caller are instants of the local clock
(`lockfast.runtime.base.now`), in seconds. `Standing.left` and `recheck` are durations, measured by
the engine's clock. A time of the server's own clock crosses the port in two places only:
`Engine.time` returns it, and `Ask.fixed` is one, because a client of the service runs on another
machine than the engine that it uses.
"""

from __future__ import annotations

from lockfast.port.ask import Ask
from lockfast.port.engine import (
    Batched,
    Bound,
    Departing,
    Engine,
    Named,
    Paced,
    Renewer,
    Replaceable,
    Signer,
)
from lockfast.port.limits import (
    ATTACHED,
    CLIENT,
    CLOSING,
    LONGEST,
    LONGEST_WAIT,
    RECORD,
    RECORDS,
    REMEMBERED,
    SHORTEST,
    TOMB_MARGIN,
    ServerTime,
)
from lockfast.port.replies import EVERYONE, Blocker, Entry, Page, Standing, Wake, everyone_of
from lockfast.port.shape import SHARED, Kind, Shape, fits_kind, permits_of

PORT = 3
"""The version of this port. It increases with every change that engines must follow. The port is
provisional until lockfast 1.0, so engines in other packages may have to change with it."""

__all__ = [
    "ATTACHED",
    "CLIENT",
    "CLOSING",
    "EVERYONE",
    "LONGEST",
    "LONGEST_WAIT",
    "PORT",
    "RECORD",
    "RECORDS",
    "REMEMBERED",
    "SHARED",
    "SHORTEST",
    "TOMB_MARGIN",
    "Ask",
    "Batched",
    "Blocker",
    "Bound",
    "Departing",
    "Engine",
    "Entry",
    "Kind",
    "Named",
    "Paced",
    "Page",
    "Renewer",
    "Replaceable",
    "ServerTime",
    "Shape",
    "Signer",
    "Standing",
    "Wake",
    "everyone_of",
    "fits_kind",
    "permits_of",
]
