"""Keeps pages of other sites from sending our forms with the user's cookies (CSRF).

Three checks. The browser says where a form comes from. A cookie that it sends with our own pages
only (`SameSite=Strict`) holds a random secret. And the form has a token, which is made of this
secret and the user's name. There is no key of the server: a form may come back to another process
of the host application than the one that made it.

Each is enough over TLS. Without it, a server at another port of the host can set the cookie, and
make the token from it: then the first check stands alone.
"""

from __future__ import annotations

import hmac
import re
import secrets
from http.cookies import SimpleCookie
from urllib.parse import urlsplit

from lockfast.web.request import Request

SECRET = re.compile("[0-9a-f]{64}")
FIELD = "token"


def secret_of(request: Request) -> str:
    """Return the secret in the cookie, or "" if there is none."""
    found = request.cookies.get(_cookie(request), "")
    return found if SECRET.fullmatch(found) else ""


def new_secret() -> str:
    """Return a secret for a browser that has none."""
    return secrets.token_hex(32)


def set_cookie(request: Request, secret: str) -> tuple[bytes, bytes]:
    """Return the header that gives the browser its secret."""
    jar = SimpleCookie({_cookie(request): secret})
    morsel = jar[_cookie(request)]
    morsel["path"] = "/"
    morsel["httponly"] = True
    morsel["samesite"] = "Strict"
    if request.encrypted:
        morsel["secure"] = True
    return b"set-cookie", morsel.OutputString().encode()


def token(secret: str, user: str) -> str:
    """Return the token of a form."""
    return hmac.digest(bytes.fromhex(secret), f"lockfast {user}".encode(), "sha256").hex()


def refusal(request: Request, shown: str, user: str) -> str:
    """Return why a form is refused, or "" if it is one of ours."""
    if not _ours(request):
        return "the form was sent by a page of another site"
    secret = secret_of(request)
    if not secret:
        return "the browser has sent no cookie of this dashboard with the form"
    if not hmac.compare_digest(token(secret, user).encode(), shown.encode()):
        return "the form was made for another user or browser"
    return ""


def _ours(request: Request) -> bool:
    """Return whether the browser says that one of our pages has sent the form."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin, host = request.headers.get("origin", ""), request.headers.get("host", "")
    return bool(host) and urlsplit(origin).netloc.lower() == host.lower()


def _cookie(request: Request) -> str:
    """Return the name of the cookie. Over TLS, only this host itself can set one of that name."""
    return "__Host-lockfast" if request.encrypted else "lockfast"
