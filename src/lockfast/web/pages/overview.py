"""The overview: figures, and a table of all locks that is searched, sorted and kept up to date."""

from __future__ import annotations

from urllib.parse import urlencode

from lockfast.runtime.base import now
from lockfast.web.answer import Answer, Receive
from lockfast.web.history import BROKEN, LOST, REFUSED
from lockfast.web.listing import COLUMNS, Wanted, listing, wanted
from lockfast.web.look import Look
from lockfast.web.pages.view import View
from lockfast.web.render import render
from lockfast.web.request import Request

MOMENT = 0.25  # seconds for which the table is shown as it was, while the time left gets less
KEPT = 16  # tables of a look that are kept so
HOLD = 2.0  # seconds that a request for something newer is kept waiting


async def page(request: Request, receive: Receive, view: View) -> Answer:  # noqa: ARG001  # a page's
    """Answer `GET /`."""
    want = wanted(request.query)
    text = await _table(request, view, want, await view.source.reader.look())
    return view.show(request, "overview.html", want=want, here=_query(want), table=text)


async def table(request: Request, receive: Receive, view: View) -> Answer:  # noqa: ARG001  # a page's
    """Answer `GET /table`: what changes of the overview. It waits for a look after that one which
    the browser has.
    """
    after = after_of(request)
    reader = view.source.reader
    look = await (reader.look(after, HOLD) if after else reader.look())
    return Answer((await _table(request, view, wanted(request.query), look)).encode())


def after_of(request: Request) -> int:
    """Return the number of the look that the browser has, or 0."""
    after = request.query.get("after", "")
    return int(after) if after.isascii() and after.isdigit() and len(after) <= len("1" * 12) else 0


async def _table(request: Request, view: View, want: Wanted, look: Look | None) -> str:
    """Return the table as HTML. All who ask for the same in a moment get the same text: a scan is
    news for all viewers at once.
    """
    found = None if look is None else await listing(look, want)
    key = view.base(request), want, view.source.reader.trouble
    known = None if look is None else look.drawn.get(key)
    if known is not None and now() < known[0]:
        return known[1]
    text = render(
        "table.html",
        **view.values(request),
        look=look,
        want=want,
        found=found,
        oldest=_oldest(look),
        lost=_counted(view, look, LOST),
        broken=_counted(view, look, BROKEN),
        refused=_counted(view, look, REFUSED),
        links={name: _link(want, name) for name in COLUMNS},
        to=lambda number: _query(want._replace(page=number)),
    )
    if look is not None:
        if len(look.drawn) >= KEPT:
            look.drawn.pop(next(iter(look.drawn)))
        look.drawn[key] = now() + MOMENT, text
    return text


def _counted(view: View, look: Look | None, kind: str) -> int:
    return 0 if look is None else view.source.reader.history.count(kind, look.at)


def _link(want: Wanted, name: str) -> str:
    """Return the query that sorts by a column, or turns the order around."""
    reverse = want.column == name and not want.reverse
    return _query(Wanted(want.search, name, reverse))


def _query(want: Wanted) -> str:
    said = {"q": want.search, "sort": want.sort, "page": str(want.page)}
    return urlencode({name: value for name, value in said.items() if value})


def _oldest(look: Look | None) -> float | None:
    """Return for how many seconds the oldest waiter has waited."""
    if look is None:
        return None
    began = min((claim.since for claim in look.waiting if claim.since), default=None)
    return None if began is None else max(look.at - began, 0.0)
