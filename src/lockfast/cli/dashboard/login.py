"""Lets the browser of one user in: a link that works once, and a cookie from then on.

Every user and every web page of a machine can send requests to a port of 127.0.0.1. So the address
says nothing about who asks, and whoever may break locks must have been given a secret.

A browser sends a cookie to all ports of a host, so also to a server of another user. It sends it to
the path of the cookie only. So the dashboard is below a path that nobody else knows.
"""

from __future__ import annotations

import getpass
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qs

from lockfast.web import Request, User

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Asgi = Callable[[Message, Receive, Send], Awaitable[None]]

SECRET = 16  # bytes: nobody guesses them, and the link fits into 80 columns

# A page of ours leads on, not a redirect: a browser that came from elsewhere would send no cookie
# that is `SameSite=Strict`.
WELCOME = (
    '<!doctype html><html lang="en"><title>lockfast</title>'
    '<meta http-equiv="refresh" content="0; url=./"><p><a href="./">Show the dashboard</a></p>'
)
REFUSED = (
    '<!doctype html><html lang="en"><title>lockfast</title>'
    "<p>Only the browser that opens the link of <code>lockfast</code> can see this. A link works "
    "once. If yours was used already, end the command, and start it again.</p>"
)


class Login:
    """One token, one cookie and one path, for as long as the process lives."""

    def __init__(self, port: int) -> None:
        """Make them. `port`: is in the cookie's name, for several dashboards of a user."""
        self._token: str | None = secrets.token_urlsafe(SECRET)
        self._cookie = secrets.token_urlsafe(2 * SECRET)
        self._name = f"lockfast-{port}"
        self._mount = f"/{secrets.token_urlsafe(SECRET)}"
        self.link = f"{self._mount[1:]}/?token={self._token}"
        """What follows the host and the port in the link."""

    def resolve(self, request: Request) -> User | None:
        """Return who asks: this user, who may break locks, if the browser has the cookie."""
        if not _same(request.cookies.get(self._name), self._cookie):
            return None
        return User(getpass.getuser(), may_break=True)

    def before(self, app: Asgi) -> Asgi:
        """Return the application with the link in front of it."""

        async def guarded(scope: Message, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            below: Message = {**scope, "root_path": self._mount}
            inside = scope["path"].startswith(f"{self._mount}/")
            token = _token(below) if inside else None
            known = inside and self.resolve(Request(below)) is not None
            if token is None and known:
                await app(below, receive, send)
            elif known:
                await _respond(send, 200, WELCOME)
            elif _same(token, self._token):
                self._token = None
                cookie = f"{self._name}={self._cookie}; Path={self._mount}/"
                cookie += "; HttpOnly; SameSite=Strict"
                await _respond(send, 200, WELCOME, (b"set-cookie", cookie.encode()))
            else:
                await _respond(send, 403, REFUSED)

        return guarded


def _token(scope: Message) -> str | None:
    """Return the token, if the request is for the link."""
    if scope["method"] != "GET" or Request(scope).path != "/":
        return None
    found = parse_qs(scope["query_string"].decode("latin-1")).get("token")
    return found[0] if found else None


def _same(said: str | None, secret: str | None) -> bool:
    if said is None or secret is None:
        return False
    return secrets.compare_digest(said.encode(), secret.encode())


async def _respond(send: Send, status: int, body: str, *headers: tuple[bytes, bytes]) -> None:
    safe = [
        (b"content-type", b"text/html; charset=utf-8"),
        (b"cache-control", b"no-store"),
        (b"referrer-policy", b"no-referrer"),
        (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
        (b"x-content-type-options", b"nosniff"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": [*safe, *headers]})
    await send({"type": "http.response.body", "body": body.encode()})
