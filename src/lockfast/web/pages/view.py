"""What all pages of an engine have: the engine, the user, and the frame around the page."""

from __future__ import annotations

from typing import NamedTuple

from lockfast.web.access import User
from lockfast.web.answer import Answer
from lockfast.web.render import render
from lockfast.web.request import Request
from lockfast.web.source import Source


class View(NamedTuple):
    """An engine as a user looks at it."""

    source: Source
    user: User
    below: str
    """The path of the engine below the mount: `/name`, or empty if there is only one."""

    def base(self, request: Request) -> str:
        """Return the beginning of the addresses of this engine's pages."""
        return f"{request.mount}{self.below}"

    def values(self, request: Request) -> dict[str, object]:
        """Return what every template is filled with."""
        return {
            "base": self.base(request),
            "mount": request.mount,
            "several": bool(self.below),
            "title": self.source.title,
            "user": self.user,
            "reader": self.source.reader,
        }

    def show(
        self, request: Request, template: str, *, status: int = 200, **values: object
    ) -> Answer:
        """Return a template, filled, as an answer."""
        text = render(template, **self.values(request), **values)
        return Answer(text.encode(), status)
