"""`POST /v1/release`: ends a lease, or leaves a queue, by its handle."""

from __future__ import annotations

from http import HTTPStatus

from lockfast.engines.remote.messages import Gone
from lockfast.service.http.answer import Answer, failed, fault_of
from lockfast.service.http.call import Failure, Origin, ask, engine_time, renew, resignation
from lockfast.service.http.messages import Release, Released
from lockfast.service.http.seal import Seal, Sealed
from lockfast.service.http.shapes import is_same
from lockfast.service.requests import LONGEST_CALL

REMEMBERED = 600.0
"""Seconds for which the engine refuses an `Idempotency-Key` after its release. A copy of the
request that comes later, from a proxy or a client, must not acquire the lock again."""


async def release(origin: Origin, request: Release, seal: Seal) -> Answer:
    """Release a claim. To do it twice is no error."""
    sealed = seal.open(request.handle, origin.who.name)
    asked = sealed.asked()
    if sealed.keyed and await _used_again(origin, sealed):
        return Answer(HTTPStatus.OK, Released(held=False))
    if sealed.keyed:
        asked.not_after = await engine_time(origin, asked) + REMEMBERED
    resign = origin.replica.claims.resign
    reply = await ask(origin, resign, resignation(asked, doubt=sealed.keyed))
    fault = fault_of(reply)
    if fault is not None:
        return failed(fault)
    assert isinstance(reply, Gone)  # noqa: S101  # for mypy
    return Answer(HTTPStatus.OK, Released(reply.results[0]))


async def _used_again(origin: Origin, sealed: Sealed) -> bool:
    """Return whether the id is that of a later lease, whose holder has used the same
    `Idempotency-Key`. A handle of a lost lease must not release that one.
    """
    try:
        stood = await renew(origin, sealed.asked(), urgent=True, patience=LONGEST_CALL)
    except Failure as failure:
        if failure.fault.denied:  # without the right to claim, giving back is still allowed
            return False
        raise
    return stood is not None and not is_same(stood, sealed.ticket, sealed.granted)
