"""The pages of the dashboard. Each is a coroutine function of a request and its view."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from lockfast.web.answer import Answer, Receive
from lockfast.web.pages import breaking, health, lock, overview, waits
from lockfast.web.pages.view import View
from lockfast.web.request import Request

Page = Callable[[Request, Receive, View], Awaitable[Answer]]

PAGES: dict[tuple[str, str], Page] = {
    ("GET", "/"): overview.page,
    ("GET", "/table"): overview.table,
    ("GET", "/lock"): lock.page,
    ("GET", "/waits"): waits.page,
    ("GET", "/health"): health.page,
    ("GET", "/break"): breaking.ask,
    ("POST", "/break"): breaking.do,
}
"""By method and path below the mount, or below the name of the engine if there are several."""
