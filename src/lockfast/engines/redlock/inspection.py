"""Reads the claims that a majority of the nodes has, and reads and keeps records of breaks."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Any

import hiredis

from lockfast.core.ballot import GRACE, quorum
from lockfast.core.record import other_format
from lockfast.engines.redis.keys import command
from lockfast.engines.redis.messages import record
from lockfast.engines.redis.replies import (
    TOP,
    Malformed,
    claim_id,
    number,
    octets,
    reading,
    records,
)
from lockfast.engines.redis.scripts import RECORD
from lockfast.engines.redlock import messages
from lockfast.engines.redlock.scripts import INSPECT
from lockfast.engines.redlock.transport import Answer, Transport
from lockfast.errors import EngineUnavailable, quoted
from lockfast.port import RECORDS, Entry, Kind, Page

SHOWN = 1000  # claims of one lock that are shown
SCANNED = 500  # keys per page
UNSURE = 1.0  # seconds for the rest to answer, if they decide whether a claim is shown
OTHERS = 4.0  # seconds of a page's time that are reserved for asking every node about its names
Rows = list[list[Any]]


async def one_name(transport: Transport, name: str, deadline: float) -> Page:
    """Return the claims on one name."""
    answers = await _ask(transport, [name], deadline)
    every, size = [each[0] for each in answers.values()], len(transport.nodes)
    foreign = [_formats([rows]) for rows in every]
    if sum(map(bool, foreign)) >= quorum(size):  # to leave it out would show the name as free
        raise other_format(name, max(max(each) for each in foreign if each))
    return Page(_merged(name, every, size), None)


async def highest_of(
    transport: Transport, claims: Sequence[tuple[str, str]], deadline: float
) -> list[int]:
    """Return the highest number of each claim on any node that answers, or 0 if it is on none.

    `claims`: the name and the id of each.
    """
    highest = [0] * len(claims)
    for rows in (await _ask(transport, [name for name, _ in claims], deadline)).values():
        for i, (_, ident) in enumerate(claims):
            with contextlib.suppress(Malformed), reading():
                for raw, token, *_ in rows[i]:
                    if raw == ident.encode():
                        highest[i] = max(highest[i], number(token))
    return highest


async def one_page(transport: Transport, prefix: str, cursor: str | None, deadline: float) -> Page:
    """Return the claims on the names that one page of one node's keys has.

    Nodes are read one after another, until those that were not read are no majority. Each claim
    that a majority has is then on a node that was read. A name is shown with the first such node.
    """
    size = len(transport.nodes)
    node, position, *read = map(int, (cursor or "0 0").split(" "))
    pattern = f"{messages.PREFIX}{{*}}[=>]{_literal(prefix)}*"
    scan = command("SCAN", position, "MATCH", pattern, "COUNT", SCANNED)
    found = _scanned(await _one(transport, node, scan, deadline), prefix)
    entries: list[Entry] = []
    others: frozenset[int] = frozenset()
    if found is not None:
        following, names = found
        answers = await _ask(transport, list(names), deadline)
        for number, name in enumerate(names):
            rows = {each: replies[number] for each, replies in answers.items()}
            others |= _formats(rows.values())
            # A lock and its waiting room are two keys, and may be on two pages: show them once.
            twice = not names[name] and _holds(rows.get(node))
            if not twice and not any(rows.get(earlier) for earlier in read):
                entries += _merged(name, rows.values(), size)
        if following:
            return Page(entries, _cursor(node, following, read), others)
        read.append(node)
    if len(read) > size - quorum(size):
        return Page(entries, None, others)
    if node + 1 == size:
        raise EngineUnavailable(f"{len(read)} of {size} Redis nodes could be read", sent=False)
    return Page(entries, _cursor(node + 1, 0, read), others)


def _formats(answers: Iterable[Any]) -> frozenset[int]:
    """Return the other formats that nodes name in place of a holder."""
    found: set[int] = set()
    for rows in answers:
        with contextlib.suppress(Malformed), reading():
            found |= {number(row[1]) for row in rows if row[0] == b"format"}
    return frozenset(found)


def _cursor(*numbers: int | list[int]) -> str:
    node, position, read = numbers
    assert isinstance(read, list)  # noqa: S101  # for the type checker
    return " ".join(map(str, [node, position, *read]))


def _scanned(reply: Any, prefix: str) -> tuple[int, dict[str, bool]] | None:
    """Return where SCAN continues and the names that it found, or None without a valid reply."""
    with contextlib.suppress(Malformed), reading():
        return number(reply[0], most=2**64 - 1), _names(reply[1], prefix)
    return None


def _holds(rows: Any) -> bool:
    """Return whether a node shows a claim that holds the lock."""
    with contextlib.suppress(Malformed), reading():
        return any(row[0] == b"format" or row[2] for row in rows or ())
    return False


def _names(keys: Iterable[bytes], prefix: str) -> dict[str, bool]:
    """Return the names in keys, each with whether its lock is among them, not only its waiters."""
    names: dict[str, bool] = {}
    for key in keys:
        # A key that is not UTF-8 belongs to another program, and must not hide all the locks.
        text = key.decode(errors="replace")[len(messages.PREFIX) :].partition("}")[2]
        if text[1:].startswith(prefix):
            names[text[1:]] = names.get(text[1:], False) or text[0] == "="
    return names


def _literal(text: str) -> str:
    """Escape the characters that SCAN's pattern would take for wildcards."""
    return re.sub(r"([\\*?\[\]^-])", r"\\\1", text)


async def _one(transport: Transport, node: int, request: bytes, deadline: float) -> Any:
    """Send one node a request and return its reply, or None if it failed or did not answer."""
    told: list[Any] = []

    def hear(_: int, answer: Answer) -> float:
        if type(answer) is list and not isinstance(answer[0], hiredis.ReplyError):
            told.append(answer[0])
        return 0.0

    requests = [request if each == node else None for each in range(len(transport.nodes))]
    await transport.scatter(requests, 1, deadline - OTHERS, hear)
    return told[0] if told else None


async def _ask(
    transport: Transport, names: Sequence[str], deadline: float
) -> dict[int, list[Rows]]:
    """Ask every node for the claims on names, and return the answers by node."""
    if not names:
        return {}
    request = b"".join(INSPECT.whole(messages.inspect(name, SHOWN)) for name in names)
    return await _majority(transport, request, len(names), deadline)


async def _majority(
    transport: Transport, request: bytes, count: int, deadline: float
) -> dict[int, list[Any]]:
    """Send every node a request, and return the answers by node. Raise if no majority answers.

    The other nodes have a moment to answer too. They have longer if they decide whether a majority
    shows a claim: one that was just granted may be on three of five nodes, of which two are among
    the last to answer.
    """
    size = len(transport.nodes)
    answers: dict[int, list[Any]] = {}
    errors: list[object] = []

    def hear(node: int, answer: Answer) -> float:
        bad = answer if type(answer) is not list else next(filter(_is_error, answer), None)
        if bad is None:
            assert type(answer) is list  # noqa: S101  # for the type checker
            answers[node] = answer
        else:
            errors.append(bad)
        silent = size - len(answers) - len(errors)
        if not silent:
            return 0.0
        if len(answers) < quorum(size):
            return 1e9
        return GRACE * 5 if _decided(answers.values(), silent, quorum(size)) else UNSURE

    await transport.scatter([request] * size, count, deadline, hear)
    if len(answers) < quorum(size):
        why = f": {quoted(errors[0])}" if errors else ""
        raise EngineUnavailable(f"{len(answers)} of {size} Redis nodes answered{why}", sent=True)
    return answers


def _decided(answers: Iterable[list[Any]], silent: int, enough: int) -> bool:
    """Return whether silent nodes cannot change which of the claims shown are on a majority."""
    shown: Counter[tuple[int, object]] = Counter()
    for answer in answers:
        for place, rows in enumerate(answer):
            with contextlib.suppress(Malformed), reading():
                shown.update({(place, tuple(row[:3])) for row in rows if isinstance(row, list)})
    return not any(seen < enough <= seen + silent for seen in shown.values())


async def recorded(transport: Transport, name: str, line: bytes, deadline: float) -> list[bytes]:
    """Keep the record of a break on every node, or without a line read them. Return the records."""
    request = RECORD.whole(record(messages.keys(name).records, line))
    answers = await _majority(transport, request, 1, deadline)
    kept: list[list[bytes]] = []
    for (reply,) in answers.values():
        with contextlib.suppress(Malformed):
            kept.append(records(reply))
    # The newest record comes first on every node that has it. A node that was down lacks some.
    rows = zip_longest(*kept)
    return list(dict.fromkeys(each for row in rows for each in row if each))[:RECORDS]


def _is_error(reply: object) -> bool:
    return isinstance(reply, hiredis.ReplyError)


def _merged(name: str, answers: Iterable[Any], size: int) -> list[Entry]:
    """Return the claims that a majority of the nodes shows, as holding or as waiting.

    A minority may show a claim that is just being made, or one whose release has not arrived yet.
    """
    enough = quorum(size)
    holding: dict[tuple[str, int], list[float]] = {}
    waiting: dict[tuple[str, int], list[float]] = {}
    payloads: dict[str, bytes] = {}
    for rows in answers:
        # Leave out an answer that is no list, and rows that lockfast did not write.
        for each in rows if isinstance(rows, list) else ():
            with contextlib.suppress(Malformed), reading():
                raw, token, has, left, payload = each
                ident, key = claim_id(raw), number(token)
                row = (holding if has else waiting).setdefault((ident, key), [])
                row.append(number(left, -TOP) / 1000)
                payloads[ident] = octets(payload)
    return [
        Entry(
            name=name,
            id=ident,
            ticket=token,
            granted=granted,
            kind=Kind.LOCK,
            weight=1,
            capacity=1,
            left=sorted(lefts, reverse=True)[enough - 1],
            payload=payloads[ident],
        )
        for granted, shown in ((True, holding), (False, waiting))
        for (ident, token), lefts in sorted(shown.items(), key=lambda each: each[0][1])
        if len(lefts) >= enough
    ]
