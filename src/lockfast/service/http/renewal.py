"""`POST /v1/renew`: extends leases, and places in a queue, by their handles."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from http import HTTPStatus

from lockfast.engines.remote.messages import AT_ONCE, Asked, Fault, Said, Stood
from lockfast.engines.remote.messages import Renew as Wanted
from lockfast.service.http.answer import Answer, failed
from lockfast.service.http.call import OVERTAKEN, Origin, ask, within
from lockfast.service.http.messages import Renew, Renewals, Renewed
from lockfast.service.http.seal import Seal, Sealed
from lockfast.service.http.shapes import BadRequest, exclusive, is_same, valid

Found = Stood | Fault | None


async def renew(origin: Origin, request: Renew, seal: Seal) -> Answer:
    """Renew all claims, and return what became of each."""
    handles = [*request.handles, *([request.handle] if request.handle is not None else [])]
    if not 1 <= len(handles) <= AT_ONCE:
        raise BadRequest(f"a request renews 1 to {AT_ONCE} handles, not {len(handles)}")
    sealed = [seal.open(handle, origin.who.name) for handle in handles]
    # A renewal is waited for as long as the lease allows. So those of a short ttl go apart.
    places: dict[float, list[int]] = {}
    asks = [each.asked() for each in sealed]
    for place, asked in enumerate(asks):
        places.setdefault(within([asked]), []).append(place)
    found: list[Found] = [None] * len(asks)

    async def part(patience: float, which: Sequence[int]) -> None:
        answers = await _ask(origin, patience, [asks[place] for place in which])
        for place, each in zip(which, answers, strict=True):
            found[place] = each

    await asyncio.gather(*(part(patience, which) for patience, which in places.items()))
    first = found[0]
    if isinstance(first, Fault) and all(isinstance(each, Fault) for each in found):
        return failed(first)
    results = [_result(each, known) for each, known in zip(found, sealed, strict=True)]
    return Answer(HTTPStatus.OK, Renewals(results))


async def _ask(origin: Origin, patience: float, asks: list[Asked]) -> list[Found]:
    said = await ask(origin, origin.replica.claims.renew, Wanted(0, patience, asks))
    assert isinstance(said, Said)  # noqa: S101  # no other reply comes to a renewal
    found: list[Found] = list(said.results)
    for fault in said.faults:
        found[fault.at] = fault
    return found


def _result(found: Found, known: Sealed) -> Renewed:
    if isinstance(found, Fault):
        return Renewed("failed", message=found.why)
    if found is None or not is_same(found, known.ticket, known.granted):
        return Renewed("gone")
    if not found.left:
        return Renewed("failed", message=OVERTAKEN.why)
    if not found.granted:
        return Renewed("waiting", found.left)
    token = str(found.ticket) if exclusive(known.asked()) else None
    return Renewed("held", found.left, valid(found.left), token)
