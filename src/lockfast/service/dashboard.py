"""The dashboard as a part of the service: its users are those of the service.

A browser has no place for an API key, so it sends the key as a password (HTTP Basic). It adds it to
every request from then on, also to those that pages of other sites send. So it counts here only,
where forms have tokens, and for no request of the API.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import ceil
from urllib.parse import urlsplit

from lockfast.primitives.lock import Holder
from lockfast.service.access import Headers, values
from lockfast.service.admission import UNAUTHORIZED, Admission
from lockfast.service.app import WEB
from lockfast.service.caller import Caller
from lockfast.service.figures import Figures
from lockfast.service.http.exchange import OWN, Line
from lockfast.service.rights import BREAK, INSPECT, Denied
from lockfast.service.usage import Overrun
from lockfast.service.watch import Watch
from lockfast.service.websocket import Message, Receive, Send
from lockfast.web.access import VISITOR, User, is_local
from lockfast.web.answer import Answer, respond, said
from lockfast.web.app import App
from lockfast.web.request import Request

CALLER = "lockfast.caller"
"""The extension with which the dashboard learns whom the service has admitted."""
ALL = ""  # the prefix of all names
PASSWORD = (b"www-authenticate", b'Basic realm="lockfast: the API key is the password"')
FORBIDDEN, TOO_MANY = 403, 429


class Dashboard:
    """The dashboard of the engine behind a replica."""

    def __init__(
        self,
        url: str | None,
        admission: Callable[[], Admission],
        watch: Watch,
        figures: Figures,
    ) -> None:
        """Connect to nothing yet. `admission`: returns who may connect at present."""
        self._admission = admission
        self._watch = watch
        self._figures = figures
        self._pages = App(url, resolve=_user, broken=self._broken)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serve a request below `WEB`."""

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._figures.replied(WEB, message["status"])
            await send(message)

        who = self._admission().caller({**scope, "headers": list(_as_client(scope["headers"]))})
        answer = self._refusal(who)
        if not isinstance(who, Caller) or answer is not None:
            answer = answer or said(FORBIDDEN, "lockfast: you may not see this dashboard")
            self._figures.refused.counts[str(answer.status),] += 1
            # Without `close`, a client could begin a second request and never end it.
            answer = replace(answer, headers=(*answer.headers, (b"connection", b"close")))
            await respond(counted, answer, bare=scope["method"] == "HEAD")
            return
        extensions = scope.get("extensions") or {}
        line: Line | None = extensions.get(OWN)
        if line is not None:
            line.admit()
        below = {
            **scope,
            "root_path": scope.get("root_path", "") + WEB,
            "extensions": {**extensions, CALLER: who},
        }
        await self._pages(below, receive, counted)
        if self._watch.onlooker is None:  # before somebody looks, nothing needs to be remembered
            self._watch.onlooker = self._pages.sources()[""].reader.history

    async def close(self) -> None:
        """Disconnect from the engine."""
        await self._pages.close()

    def _refusal(self, who: Caller | int) -> Answer | None:
        """Return the answer to a client that may not look, or None."""
        if who == UNAUTHORIZED:
            words = "lockfast: the dashboard needs an API key, as the password of any user name"
            return Answer(f"{words}\n".encode(), UNAUTHORIZED, headers=(PASSWORD,))
        if not isinstance(who, Caller):
            return None
        try:
            if who.usage is not None:
                who.usage.request(1, 0, keeps=False)
            # A part of the list could be taken for all of it, so all or nothing.
            self._watch.require(who, INSPECT, ALL, exact=False)
        except Overrun as error:
            after = (b"retry-after", b"%d" % ceil(error.after))
            return Answer(f"{error.message}\n".encode(), TOO_MANY, headers=(after,))
        except Denied as error:
            return said(FORBIDDEN, f"lockfast: {error.message}")
        return None

    def _broken(self, request: Request, holder: Holder, reason: str) -> None:
        """Log that a user has broken a lock."""
        self._watch.broken(_caller(request), holder.name, holder.id, holder.ticket, reason)


def _caller(request: Request) -> Caller:
    found: Caller = request.scope["extensions"][CALLER]
    return found


def _user(request: Request) -> User | None:
    who = _caller(request)
    if who.proof is None:  # nobody proves who they are: as the dashboard by itself
        return VISITOR if is_local(request) else None
    rights = who.rights
    return User(who.name, True if rights is None else partial(rights.may, BREAK))


def _as_client(headers: Headers) -> Headers:
    """Yield the headers of a browser as a client of the API would have sent them."""
    hosts = values(headers, b"host")
    for name, value in headers:
        lower = name.lower()
        if lower == b"authorization" and value[:6].lower() == b"basic ":
            yield name, b"Bearer " + _password(value[6:])
        elif lower != b"origin" or hosts != [_host(value)]:
            yield name, value


def _password(encoded: bytes) -> bytes:
    try:
        return base64.b64decode(encoded.strip(), validate=True).partition(b":")[2]
    except binascii.Error:
        return b""


def _host(origin: bytes) -> bytes:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return b""
