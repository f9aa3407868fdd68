"""What breaking a lock does and does not do, in words."""

from __future__ import annotations

from lockfast.primitives.lock import Holder
from lockfast.show.claims import described


def consequences(holder: Holder, waited_for: bool) -> list[str]:  # noqa: FBT001  # a value
    """Return the lines that explain what breaking the lock will do, and what it will not."""
    token = f"token {holder.token}" if holder.token is not None else f"ticket {holder.ticket}"
    beat = holder.who.ttl / 3
    when = f", within {beat:.2g} s" if beat else ""
    told = (
        f"If it is running, it notices the loss at its next renewal{when}. If it is paused or cut "
        "off, it notices the loss later."
    )
    guarded = (
        f"A guarded resource rejects {token} as soon as the next holder has sealed it or written "
        "to it. Until then, and without a guard, the resource accepts its writes."
        if holder.token is not None
        else "It has no fencing token, so no guard can reject its writes."
    )
    return [
        f"{holder.name!r} is held by {described(holder)}, with {token}.",
        "If you break it:",
        "- "
        + ("The next waiter acquires it immediately." if waited_for else "It is free immediately."),
        f"- lockfast does not stop the old holder. {told}",
        f"- The old holder can still finish what it has started. {guarded}",
    ]
