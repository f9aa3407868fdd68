"""The health of an engine: what it guarantees, and which settings weaken that."""

from __future__ import annotations

from lockfast.core.record import FORMAT
from lockfast.errors import LockfastError
from lockfast.guarantees import Level
from lockfast.show.formats import foreign
from lockfast.web.answer import Answer, Receive
from lockfast.web.pages.view import View
from lockfast.web.request import Request


async def page(request: Request, receive: Receive, view: View) -> Answer:  # noqa: ARG001  # a page's
    """Answer `GET /health`."""
    look = await view.source.reader.look()
    others = set() if look is None else look.unread
    try:
        found, trouble = await view.source.guarantees(), ""
    except LockfastError as error:
        found, trouble = None, error.message
    findings = list(found.findings) if found else []
    if others:
        findings.append(foreign(others))
    return view.show(
        request,
        "health.html",
        found=found,
        findings=findings,
        trouble=trouble,
        levels=list(Level),
        format=FORMAT,
        look=look,
    )
