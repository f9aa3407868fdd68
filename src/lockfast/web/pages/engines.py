"""The first page of a dashboard of several engines: all of them side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from lockfast.web.access import User
from lockfast.web.answer import Answer
from lockfast.web.render import render
from lockfast.web.request import Request
from lockfast.web.source import Source


async def page(request: Request, user: User, sources: Mapping[str, Source]) -> Answer:
    """Answer `GET /`."""
    await asyncio.gather(*(source.reader.look() for source in sources.values()))
    text = render("engines.html", mount=request.mount, user=user, sources=sources)
    return Answer(text.encode())
