"""Breaking a lock: what that does and does not do, the reason, and the deed."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import urlencode

from lockfast.claims.break_records import LONGEST_BREAKER, LONGEST_REASON
from lockfast.errors import EngineUnavailable, LockfastError
from lockfast.names import checked
from lockfast.primitives.lock import Holder
from lockfast.show.consequences import consequences
from lockfast.web.answer import Answer, Receive, elsewhere
from lockfast.web.csrf import FIELD, new_secret, refusal, secret_of, set_cookie, token
from lockfast.web.pages.view import View
from lockfast.web.request import Request, form

FORBIDDEN, UNAVAILABLE, BAD = 403, 503, 400
HERE = " (dashboard)"  # what no name of a user can push out of the record
NOT_YOURS = "you may look at this lock, but not break it"


async def ask(request: Request, receive: Receive, view: View) -> Answer:  # noqa: ARG001  # a page's
    """Answer `GET /break`: the confirmation."""
    name = request.query.get("name", "")
    if not view.user.breaks(name):
        return _refused(request, view, NOT_YOURS)
    return await _confirm(request, view, name, request.query.get("id", ""))


async def do(request: Request, receive: Receive, view: View) -> Answer:
    """Answer `POST /break`: break the lock."""
    name, id_ = request.query.get("name", ""), request.query.get("id", "")
    if not view.user.breaks(name):
        return _refused(request, view, NOT_YOURS)
    sent = await form(request, receive)
    why = refusal(request, sent.get(FIELD, ""), view.user.name)
    if why:
        return _refused(request, view, why)
    reason = sent.get("reason", "").strip()
    if not reason:
        return await _confirm(request, view, name, id_, wrong="Write the reason.")
    if len(reason) > LONGEST_REASON:
        wrong = f"The reason has more than {LONGEST_REASON} characters."
        return await _confirm(request, view, name, id_, wrong=wrong, reason=reason)
    try:
        holder, _ = await _holder(view, checked(name), id_)
        broken = holder is not None and await view.source.client.revoke(
            holder, reason, by=f"{view.user.name[: LONGEST_BREAKER - len(HERE)]}{HERE}"
        )
    except LockfastError as error:
        maybe = isinstance(error, EngineUnavailable) and error.sent
        return _failed(request, view, name, error, maybe=maybe)
    if broken and holder is not None:
        view.broken(request, holder, reason)
    view.source.forget(name)
    query = urlencode({"name": name, "done": "broken" if broken else "gone"})
    return elsewhere(f"{view.base(request)}/lock?{query}")


async def _confirm(  # noqa: PLR0913  # what the form has
    request: Request, view: View, name: str, id_: str, *, wrong: str = "", reason: str = ""
) -> Answer:
    try:
        holder, waited_for = await _holder(view, checked(name), id_)
    except LockfastError as error:
        return _failed(request, view, name, error, maybe=False)
    secret = secret_of(request) or new_secret()
    answer = view.show(
        request,
        "break.html",
        status=BAD if wrong else 200,
        name=name,
        holder=holder,
        said=[] if holder is None else consequences(holder, waited_for),
        wrong=wrong,
        reason=reason,
        longest=LONGEST_REASON,
        field=FIELD,
        token=token(secret, view.user.name),
    )
    return replace(answer, headers=(set_cookie(request, secret),))


async def _holder(view: View, name: str, id_: str) -> tuple[Holder | None, bool]:
    """Ask the engine who holds a lock with this id, and whether anybody waits for it."""
    queue = await view.source.client.lock(name).queue()
    found = next((each for each in queue if each.granted and each.id == id_), None)
    return found, any(not each.granted for each in queue)


def _refused(request: Request, view: View, why: str) -> Answer:
    return view.show(
        request, "refused.html", status=FORBIDDEN, title_words="Not allowed", why=why, more=""
    )


def _failed(
    request: Request, view: View, name: str, error: LockfastError, *, maybe: bool
) -> Answer:
    more = "The lock may have been broken: look at it again." if maybe else ""
    return view.show(
        request,
        "refused.html",
        status=UNAVAILABLE,
        title_words=f"{name} was not broken" if not maybe else name,
        why=error.message,
        more=more,
    )
