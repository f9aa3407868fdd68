"""Conversion between the messages and what the port returns. The messages are checked already."""

from __future__ import annotations

from collections.abc import Sequence

from lockfast.engines.remote import messages
from lockfast.engines.remote.line import failure
from lockfast.errors import EngineUnavailable, KindMismatch
from lockfast.guarantees import Finding, Guarantees, Level
from lockfast.port import Ask, Blocker, Entry, Kind, Page, Standing


def asked(ask: Ask, trace: str = "") -> messages.Asked:
    """Return a claim as it is sent."""
    shape = ask.shape
    return messages.Asked(
        ask.id,
        shape.name,
        shape.ttl,
        int(shape.kind),
        shape.capacity,
        shape.weight,
        ask.queue,
        ask.fixed,
        ask.ticket,
        ask.granted,
        ask.payload,
        trace,
        ask.departs if shape.ttl > ask.departs else 0.0,
    )


def standing(stood: messages.Stood | None, ask: Ask) -> Standing | None:
    """Return a standing. A claim is never believed in for longer than its ttl, whatever the service
    says: a request that was changed on its way can have claimed for longer.
    """
    if stood is None:
        return None
    head = stood.blocker
    return Standing(
        stood.ticket,
        granted=stood.granted,
        left=min(stood.left, ask.shape.ttl),
        ahead=stood.ahead,
        behind=stood.behind,
        floor=stood.floor,
        blocker=None if head is None else Blocker(head.id, head.ticket, head.payload),
        recheck=stood.recheck,
    )


def said(
    where: str, reply: messages.Said, asks: Sequence[Ask]
) -> list[Standing | Exception | None]:
    """Return the results of claims or renewals."""
    _complete(where, len(reply.results), len(asks))
    found: list[Standing | Exception | None] = [
        standing(each, ask) for each, ask in zip(reply.results, asks, strict=True)
    ]
    for fault in reply.faults:
        if fault.at < len(asks):
            found[fault.at] = _error(where, fault, asks[fault.at])
    return found


def gone(where: str, reply: messages.Gone, asks: Sequence[Ask]) -> list[bool | Exception]:
    """Return the results of resignations."""
    found: list[bool | Exception] = list(reply.results)
    _complete(where, len(found), len(asks))
    for fault in reply.faults:
        if fault.at < len(asks):
            found[fault.at] = _error(where, fault, asks[fault.at])
    return found


def page(reply: messages.Page) -> Page:
    """Return a page of claims."""
    entries = [
        Entry(
            each.name,
            each.id,
            each.ticket,
            each.granted,
            Kind(each.kind),
            each.weight,
            each.capacity,
            each.left,
            each.payload,
        )
        for each in reply.entries
    ]
    return Page(entries, reply.cursor, frozenset(reply.others))


def promised(reply: messages.Promised, *, moves: bool) -> Guarantees:
    """Return what the engine behind the service guarantees. `moves`: whether leases outlive the
    replica.
    """
    promise = reply.promise if moves else f"{reply.promise}; leases are lost when a replica ends"
    return Guarantees(
        f"{reply.engine}, through lockfast's service",
        Level(reply.level),
        promise,
        tuple(Finding(each.setting, each.risk, each.remedy) for each in reply.findings),
        Level(reply.best),
    )


def _complete(where: str, found: int, wanted: int) -> None:
    if found != wanted:
        raise EngineUnavailable(f"{where}: {found} results for {wanted} claims", sent=True)


def _error(where: str, fault: messages.Fault, ask: Ask) -> Exception:
    if fault.kind == "kind-mismatch":
        return KindMismatch(ask.shape.name, fault.asked, fault.ruling)
    return failure(where, fault)
