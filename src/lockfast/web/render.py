"""Fills the templates. Every text that they show is escaped, twice: for terminals and for HTML."""

from __future__ import annotations

import time

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from lockfast import __version__
from lockfast.plain import plain
from lockfast.show.claims import share, span
from lockfast.web.claim import Claim
from lockfast.web.history import BROKEN, GONE, GRANTED, LEFT, LOST, REFUSED, RELEASED, WAITS
from lockfast.web.static_files import KINDS, file

LATE, OVERDUE = 0.6, 0.34  # of the ttl that is left: a live holder renews at two thirds

WORDS = {
    WAITS: "began to wait",
    GRANTED: "granted",
    GONE: "gone: released, or its lease ended",
    LEFT: "does not wait any more",
    RELEASED: "released",
    LOST: "lost",
    BROKEN: "broken",
    REFUSED: "a guard refused a write",
}


def _shown(value: object) -> object:
    """Make unprintable characters visible: no name may forge a line or turn the text around."""
    return plain(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def exact(value: str) -> Markup:
    """Return what a user has typed for a field, which must not change it."""
    return escape(value)


def ago(since: float) -> str:
    """Return how long ago an instant was, by the wall clock."""
    return span(time.time() - since) if since else "?"


def left(claim: Claim) -> int:
    """Return how much of its ttl a claim has left, in percent."""
    return round(100 * min(claim.left / claim.life, 1.0)) if claim.life else 0


def mood(percent: int) -> str:
    """Return the class of a bar."""
    return "low" if percent < OVERDUE * 100 else "late" if percent < LATE * 100 else "good"


def shape(claim: Claim) -> str:
    """Return what a claim is for."""
    return "lock" if claim.kind.words == "lock" else claim.kind.words


def instant(at: float) -> str:
    """Return an instant as a time of the day, in UTC."""
    return time.strftime("%H:%M:%S", time.gmtime(at))


_environment = Environment(
    loader=PackageLoader("lockfast.web"),
    autoescape=True,
    undefined=StrictUndefined,
    finalize=_shown,
    trim_blocks=True,
    lstrip_blocks=True,
)
_environment.filters.update(
    ago=ago, exact=exact, instant=instant, left=left, mood=mood, shape=shape, share=share, span=span
)
_environment.globals.update(
    words=WORDS, version=__version__, versions={name: file(name).version for name in KINDS}
)


def render(template: str, **values: object) -> str:
    """Return a template, filled."""
    return _environment.get_template(template).render(values)
