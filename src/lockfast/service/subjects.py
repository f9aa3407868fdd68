"""The subjects of a configuration: who they are, and what each may do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import cast

from lockfast.names import LONGEST as LONGEST_NAME
from lockfast.plain import plain
from lockfast.port import LONGEST, SHORTEST
from lockfast.service.keys import NAMED, is_name
from lockfast.service.rights import LIMITS, VERBS, Limits, Rights

MOST = 1_000  # subjects, and texts in a list
LONGEST_TEXT = 1_024  # characters of a text
KEYS, TOKENS, CERTIFICATES = "keys", "tokens", "certificates"
WHO = (KEYS, TOKENS, CERTIFICATES)
HIGHEST = 2**31


@dataclass(frozen=True, slots=True)
class Subject:
    """One table of `subjects`."""

    rights: Rights
    keys: tuple[str, ...]
    """The names of its API keys."""
    tokens: tuple[str, ...]
    """The values of the token's claim by which it is known."""
    certificates: tuple[str, ...]
    """The subjects of its client certificates, as the proxy writes them."""


class Subjects:
    """All subjects. It is never changed."""

    def __init__(self, tables: Mapping[str, object]) -> None:
        """Check the tables. Raise `ValueError`, which names the entry that is wrong."""
        if len(tables) > MOST:
            raise ValueError(f"there are {len(tables)} subjects, and at most {MOST} are possible")
        self._all = {name: _subject(name, table) for name, table in tables.items()}
        self._found = {kind: dict(_inverted(kind, self._all.values())) for kind in WHO}

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._all)

    def __contains__(self, name: str) -> bool:
        """Return whether there is a subject with this name."""
        return name in self._all

    def find(self, kind: str, values: Iterable[str]) -> Rights | None:
        """Return the rights of the first subject in the configuration that has one of these keys,
        tokens or certificates, or None.
        """
        found = self._found[kind]
        for value in values:
            if value in found:
                return found[value]
        return None

    def known(self, kind: str) -> set[str]:
        """Return the values of all subjects."""
        return set(self._found[kind])


def _inverted(kind: str, subjects: Iterable[Subject]) -> Iterator[tuple[str, Rights]]:
    owners: dict[str, str] = {}
    for each in subjects:
        mine = each.rights.subject
        for value in cast("tuple[str, ...]", getattr(each, kind)):
            if owners.setdefault(value, mine) != mine:
                raise ValueError(
                    f"subjects.{mine}.{kind}: {plain(value)!r} is one of subjects.{owners[value]} "
                    "too. Remove one of them"
                )
            yield value, each.rights


def _subject(name: str, table: object) -> Subject:
    if not is_name(name):
        raise ValueError(f"subjects: {name[:100]!r} is not a name. It has {NAMED}")
    where = f"subjects.{name}"
    if not isinstance(table, dict):
        raise ValueError(f"{where} must be a table: write [{where}]")  # noqa: TRY004  # of a file
    known = (*WHO, *VERBS, *LIMITS)
    for entry in table:
        if entry not in known:
            raise ValueError(f"{where}.{entry[:100]!r} is not known. It has {', '.join(known)}")
    lists = {
        entry: _texts(f"{where}.{entry}", table[entry], empty=entry in VERBS)
        for entry in (*WHO, *VERBS)
        if entry in table
    }
    if not any(kind in table for kind in WHO):
        lists[KEYS] = (name,)
    present = [entry for entry in LIMITS if entry in table]
    limits = {entry: _limit(f"{where}.{entry}", entry, table[entry]) for entry in present}
    prefixes = {verb: lists.get(verb, ()) for verb in VERBS}
    return Subject(
        Rights(name, prefixes, Limits(**limits)),  # type: ignore[arg-type]  # checked by `_limit`
        *(lists.get(kind, ()) for kind in WHO),
    )


def _texts(where: str, value: object, *, empty: bool) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ValueError(f'{where} must be a list of texts, such as ["orders/"]')
    if len(value) > MOST:
        raise ValueError(f"{where} has {len(value)} entries, and at most {MOST} are possible")
    longest = LONGEST_NAME if empty else LONGEST_TEXT
    for each in value:
        if len(each.encode()) > longest or (not each and not empty):
            raise ValueError(f"{where}: each text must have {0 if empty else 1} to {longest} bytes")
    return tuple(value)


def _limit(where: str, entry: str, value: object) -> float | int:
    if entry == "max_ttl":
        if type(value) not in {int, float} or not SHORTEST <= cast("float", value) <= LONGEST:
            raise ValueError(f"{where} must be {SHORTEST:g} to {LONGEST:g} seconds")
        return cast("float", value)
    lowest = 0 if entry == "max_waiters" else 1
    if type(value) is not int or not lowest <= value <= HIGHEST:
        raise ValueError(f"{where} must be a whole number of {lowest} or more")
    return value
