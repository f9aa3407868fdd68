"""Who waits for whom, as a picture and in words, with the deadlocks."""

from __future__ import annotations

from itertools import islice

from lockfast.primitives.inspection import Tie
from lockfast.show.graph import Graph
from lockfast.web.answer import Answer, Receive
from lockfast.web.claim import key_of
from lockfast.web.drawing.waits import Picture, drawn
from lockfast.web.look import Look
from lockfast.web.pages.overview import HOLD, after_of
from lockfast.web.pages.view import View
from lockfast.web.request import Request

MOST = 2_000  # claims on names with waiters from which the picture is made
TREES = 12  # trees that are drawn
CIRCLES = 5  # deadlocks that are told; the others are counted


async def page(request: Request, receive: Receive, view: View) -> Answer:  # noqa: ARG001  # a page's
    """Answer `GET /waits`."""
    after = after_of(request)
    look = await (view.source.reader.look(after, HOLD) if after else view.source.reader.look())
    circles = [] if look is None else look.deadlocks
    return view.show(
        request,
        "waits.html",
        look=look,
        picture=None if look is None else _picture(look),
        circles=[[Tie(*link) for link in circle] for circle in circles[:CIRCLES]],
        more=max(len(circles) - CIRCLES, 0),
    )


def _picture(look: Look) -> Picture:
    """Draw the locks with waiters: those in a deadlock first, then those with most waiters."""
    stuck = {link.waiting.name for circle in look.deadlocks for link in circle}
    names = {claim.name for claim in look.waiting}
    order = sorted(
        names, key=lambda name: (name not in stuck, -len(look.locks[name].waiters), name)
    )
    chosen: set[str] = set()
    room = MOST
    for name in order:
        room -= len(look.locks[name].claims)
        if room < 0 and chosen:
            break
        chosen.add(name)
    claims = [claim for name in sorted(chosen) for claim in look.locks[name].claims]
    # A thread that waits may hold names for which nobody waits. These are named in its box.
    held = {key_of(name, id_) for claim in claims for id_, name in claim.holding.items()}
    known = {key_of(claim.name, claim.id) for claim in claims}
    claims += [look.claims[key] for key in held - known if key in look.claims]
    claims.sort(key=lambda claim: (claim.name, not claim.granted, claim.ticket))
    ties = {link.waiting.id for circle in look.deadlocks for link in circle}
    first = {id_ for circle in look.deadlocks for link in circle for id_ in link.waiting.holding}
    trees = list(islice(Graph(claims).roots(first), TREES + 1))
    left_out = len(names) - len(chosen)
    return drawn(trees[:TREES], ties, left_out=left_out, cut=len(trees) > TREES)
