"""`POST /v1/sign`: a signed token of a lock that is held, by its handle."""

from __future__ import annotations

from http import HTTPStatus

from lockfast.engines.remote import messages
from lockfast.service.http.answer import Answer, failed, fault_of, problem
from lockfast.service.http.call import Origin, ask, within
from lockfast.service.http.messages import Sign, Signed
from lockfast.service.http.seal import Seal
from lockfast.service.sign_requests import GONE, PERMIT, UNSIGNED, WAITING

REFUSED = {
    UNSIGNED: (HTTPStatus.NOT_FOUND, "not-found"),
    GONE: (HTTPStatus.GONE, "gone"),
    WAITING: (HTTPStatus.CONFLICT, "waiting"),
    PERMIT: (HTTPStatus.CONFLICT, "permit"),
}
"""What the service itself refuses. It is no error of the engine."""


async def sign(origin: Origin, request: Sign, seal: Seal) -> Answer:
    """Return the signed token."""
    asked = seal.open(request.handle, origin.who.name).asked()
    wanted = messages.Sign(0, within([asked]), asked, request.audience)
    reply = await ask(origin, origin.replica.signatures.sign, wanted)
    fault = fault_of(reply)
    if fault is not None and fault.why in REFUSED:
        return problem(*REFUSED[fault.why], fault.why)
    if fault is not None:
        return failed(fault)
    assert isinstance(reply, messages.Signed)  # noqa: S101  # for mypy
    return Answer(HTTPStatus.OK, Signed(reply.token))
