"""The overview's table: searches, sorts and pages the locks of a look."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from lockfast.web.claim import Lock
from lockfast.web.look import TURN, Look, in_order

PAGE = 70  # rows: with the stylesheet and the script, under 100 kB on a first visit
LONGEST_SEARCH = 200  # characters
KEPT = 16  # searches whose result is kept until the next look
NEVER = float("inf")


def _name(lock: Lock) -> str:
    return lock.name


def _holder(lock: Lock) -> str:
    who = lock.first.who
    return (who.service or who.worker).casefold()


def _purpose(lock: Lock) -> str:
    return lock.first.who.purpose.casefold()


def _token(lock: Lock) -> int:
    return lock.first.ticket


def _since(lock: Lock) -> float:
    return lock.first.since or NEVER


def _left(lock: Lock) -> float:
    return min((claim.until for claim in lock.holders), default=NEVER)


def _waiters(lock: Lock) -> int:
    return len(lock.waiters)


class Column(NamedTuple):
    """A column by which the table can be sorted."""

    key: Callable[[Lock], Any]
    downward: bool
    """Whether the first click shows the largest first."""


COLUMNS = {
    "name": Column(_name, downward=False),
    "holder": Column(_holder, downward=False),
    "purpose": Column(_purpose, downward=False),
    "token": Column(_token, downward=True),
    "held": Column(_since, downward=False),  # since: the oldest first
    "left": Column(_left, downward=False),
    "waiters": Column(_waiters, downward=True),
}


class Wanted(NamedTuple):
    """What a viewer wants to see."""

    search: str = ""
    column: str = "waiters"
    reverse: bool = False
    """Whether against the column's first direction."""
    page: int = 1

    @property
    def sort(self) -> str:
        """The column and the direction, as they are in an address."""
        return f"{'-' if self.reverse else ''}{self.column}"

    @property
    def downward(self) -> bool:
        """Whether the largest come first."""
        return COLUMNS[self.column].downward != self.reverse


def wanted(query: Mapping[str, str]) -> Wanted:
    """Read what a viewer wants. What cannot be read is as if it were not there."""
    sort = query.get("sort", "")
    column = sort.removeprefix("-")
    if column not in COLUMNS:
        sort = column = Wanted().column
    page = query.get("page", "1")
    number = int(page) if page.isascii() and page.isdigit() and len(page) <= len("1000000") else 1
    search = query.get("q", "").strip()[:LONGEST_SEARCH]
    return Wanted(search, column, sort.startswith("-"), max(number, 1))


class Listing(NamedTuple):
    """A page of the table."""

    rows: Sequence[Lock]
    found: int
    """How many locks there are on all pages."""
    page: int
    pages: int


async def listing(look: Look, want: Wanted) -> Listing:
    """Return a page of the locks that a viewer wants."""
    key = want.search.casefold(), want.sort
    search = look.listed.get(key)
    if search is None:
        if len(look.listed) >= KEPT:
            look.listed.pop(next(iter(look.listed)))
        search = look.listed[key] = asyncio.create_task(_sorted(look, want))
    locks = await asyncio.shield(search)  # others wait for it too
    pages = max(-(-len(locks) // PAGE), 1)
    page = min(want.page, pages)
    return Listing(locks[(page - 1) * PAGE : page * PAGE], len(locks), page, pages)


async def _sorted(look: Look, want: Wanted) -> Sequence[Lock]:
    locks = await _search(list(look.locks.values()), want.search.casefold())
    if want.column == "name" and not want.reverse:  # the look has them in the order of names
        return locks
    return await in_order(locks, COLUMNS[want.column].key, reverse=want.downward)


async def _search(locks: list[Lock], words: str) -> list[Lock]:
    if not words:
        return locks
    found = []
    for number, lock in enumerate(locks, 1):
        if _matches(lock, words):
            found.append(lock)
        if number % TURN == 0:
            await asyncio.sleep(0)
    return found


def _matches(lock: Lock, words: str) -> bool:
    return words in lock.name.casefold() or any(
        words in who.service.casefold() or words in who.host.casefold()
        for who in (claim.who for claim in lock.claims)
    )
