"""One lock: its holders, its queue in order, and what has happened to it lately."""

from __future__ import annotations

from urllib.parse import urlencode

from lockfast.errors import LockfastError
from lockfast.names import checked
from lockfast.port import Kind
from lockfast.web.answer import Answer, Receive
from lockfast.web.claim import Lock
from lockfast.web.drawing.permits import permits
from lockfast.web.drawing.timeline import timeline
from lockfast.web.pages.overview import HOLD, after_of
from lockfast.web.pages.view import View
from lockfast.web.request import Request

LISTED = 50  # events
SHOWN = 200  # holders, and waiters, that are shown


async def page(request: Request, receive: Receive, view: View) -> Answer:  # noqa: ARG001  # a page's
    """Answer `GET /lock`."""
    name = checked(request.query.get("name", ""))
    after = after_of(request)
    look = await (view.source.reader.look(after, HOLD) if after else view.source.reader.look())
    lock = None if look is None else look.locks.get(name)
    try:
        breaks, trouble = await view.source.breaks(name), ""
    except LockfastError as error:
        breaks, trouble = [], error.message
    history = view.source.reader.history
    history.broke(name, breaks)
    events = history.of(name)
    return view.show(
        request,
        "lock.html",
        name=name,
        address=f"{view.base(request)}/lock?{urlencode({'name': name})}",
        look=look,
        lock=lock,
        shown=SHOWN,
        permits=permits(lock) if lock and lock.first.kind is Kind.SEMAPHORE else None,
        value=_value(lock),
        done=request.query.get("done", ""),
        breaks=breaks,
        events=[*reversed(events)][:LISTED],
        timeline=None if look is None else timeline(events, lock, history, look.at),
        history=history,
        trouble=trouble,
    )


def _value(lock: Lock | None) -> str:
    """Return the value that a leader publishes."""
    return next((claim.value for claim in lock.holders if claim.value), "") if lock else ""
