"""`GET /v1/locks` and `GET /v1/guarantees`, and how a claim is broken that was found there."""

from __future__ import annotations

from http import HTTPStatus

from lockfast.claims.break_records import written
from lockfast.engines.remote import messages
from lockfast.engines.remote.messages import Asked, Inspect, Page, Promise, Promised, Record, Reply
from lockfast.guarantees import Level
from lockfast.names import checked, size_of
from lockfast.port import LONGEST_WAIT
from lockfast.service.http.answer import Answer, failed, fault_of
from lockfast.service.http.call import Call, Failure, Origin, ask
from lockfast.service.http.messages import Break, Broken, Finding, Guarantees, Locks, Look
from lockfast.service.http.shapes import BadRequest, listed, named
from lockfast.service.other_requests import Other
from lockfast.service.requests import LONGEST_CALL
from lockfast.service.rights import BREAK

PAGES = 100  # of the queue of one lock that are searched for a claim


async def locks(origin: Origin, request: Look) -> Answer:
    """Return a page of holders and waiters."""
    exact = request.name is not None
    names = request.prefix if request.name is None else request.name
    if exact and request.prefix:
        raise BadRequest("a request has name or prefix, and not both")
    try:
        checked(names) if exact else size_of(names, "the prefix")
    except ValueError as error:
        raise BadRequest(str(error)) from None
    try:
        page = await _page(origin, names, request.cursor, exact=exact)
    except Failure as failure:
        if request.cursor is not None and failure.fault.kind == "refused":
            raise BadRequest(failure.fault.why) from None
        raise
    return Answer(HTTPStatus.OK, Locks([listed(each) for each in page.entries], page.cursor))


async def guarantees(origin: Origin) -> Answer:
    """Return what the engine guarantees."""
    reply = await _other(origin, Promise(0, LONGEST_CALL))
    assert isinstance(reply, Promised)  # noqa: S101  # for mypy
    findings = [Finding(each.setting, each.risk, each.remedy) for each in reply.findings]
    level, best = named(Level(reply.level)), named(Level(reply.best))
    return Answer(HTTPStatus.OK, Guarantees(reply.engine, level, reply.promise, best, findings))


async def break_(origin: Origin, request: Break) -> Answer:
    """Remove a claim of any client, and record who did it and why."""
    try:
        checked(request.name)
    except ValueError as error:
        raise BadRequest(str(error)) from None
    origin.replica.watch.require(origin.who, BREAK, request.name, request.id)
    found = await _claim(origin, request.name, request.id)
    if found is None:
        return Answer(HTTPStatus.OK, Broken(broken=False))
    asked = Asked(found.id, found.name, LONGEST_WAIT, found.kind, found.capacity, found.weight)
    reply = await ask(
        origin, origin.replica.claims.break_, messages.Break(0, LONGEST_CALL, [asked])
    )
    fault = fault_of(reply)
    if fault is not None:
        return failed(fault)
    assert isinstance(reply, messages.Gone)  # noqa: S101  # for mypy
    (broken,) = reply.results
    if broken:
        who = origin.who
        by = f"{who.name or 'somebody'} at {who.address or '?'} by HTTP"
        record = written(found.id, found.ticket, request.reason, by)
        await _other(origin, Record(0, LONGEST_CALL, found.name, found.id, record))
    return Answer(HTTPStatus.OK, Broken(broken))


async def _claim(origin: Origin, name: str, id_: str) -> messages.Listed | None:
    """Return a claim on a name. Its kind and weight are needed to remove it."""
    cursor = None
    for _ in range(PAGES):
        page = await _page(origin, name, cursor, exact=True)
        for each in page.entries:
            if each.id == id_:
                return each
        cursor = page.cursor
        if cursor is None:
            break
    return None


async def _page(origin: Origin, names: str, cursor: str | None, *, exact: bool) -> Page:
    reply = await _other(origin, Inspect(0, names, cursor, exact))
    assert isinstance(reply, Page)  # noqa: S101  # for mypy
    return reply


async def _other(origin: Origin, request: Other) -> Reply:
    call = Call(origin.who)
    origin.replica.others.add(call, request)
    reply = await call.reply()
    fault = fault_of(reply)
    if fault is not None:
        raise Failure(fault)
    return reply
