"""A request to the dashboard, as the `resolve` function of the host application sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qsl, quote

from lockfast.web.answer import Receive

LONGEST_QUERY = 8_192  # bytes: a name of 512 bytes, percent-encoded, and what else a page asks for
LARGEST_FORM = 65_536  # bytes
SLOWEST = 10.0  # seconds for a form
FIELDS = 20  # fields of a query or a form


class Request:
    """One HTTP request. It can be read, and not changed."""

    def __init__(self, scope: Mapping[str, Any]) -> None:
        """Take the scope of an ASGI server."""
        self.scope = scope
        """The scope of the ASGI server. It has what the host's middleware has added, such as
        `user` or `session`.
        """
        self.headers = _headers(scope["headers"])
        """The headers by name, in small letters. Those that came twice are joined by a comma."""

    @property
    def method(self) -> str:
        """The HTTP method, in capitals."""
        return str(self.scope["method"])

    @property
    def cookies(self) -> Mapping[str, str]:
        """The cookies by name."""
        # Not `SimpleCookie`, which returns none of them if one of another site's is malformed.
        found: dict[str, str] = {}
        for part in self.headers.get("cookie", "").split(";"):
            name, equals, value = part.strip().partition("=")
            if equals:
                found.setdefault(name, value.strip('"'))
        return MappingProxyType(found)

    @property
    def address(self) -> str:
        """The address of the client, as the ASGI server knows it. Empty for a unix socket."""
        client = self.scope.get("client")
        return str(client[0]) if client else ""

    @property
    def encrypted(self) -> bool:
        """Whether the browser has sent it over TLS, as the ASGI server knows."""
        return self.scope.get("scheme") == "https"

    @property
    def mount(self) -> str:
        """The path under which the dashboard is mounted, for links."""
        return quote(str(self.scope.get("root_path", "")).rstrip("/"))

    @property
    def path(self) -> str:
        """The path below the mount."""
        path, root = str(self.scope["path"]), str(self.scope.get("root_path", "")).rstrip("/")
        below = path == root or path.startswith(f"{root}/")
        return path[len(root) :] if below else path

    @property
    def query(self) -> Mapping[str, str]:
        """The fields of the query. Raises `ValueError` if there are too many."""
        raw: bytes = self.scope.get("query_string", b"")
        if len(raw) > LONGEST_QUERY:
            raise ValueError("the query is too long")
        return MappingProxyType(fields(raw))


def _headers(raw: Iterable[tuple[bytes, bytes]]) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for raw_name, raw_value in raw:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        between = "; " if name == "cookie" else ", "
        found[name] = f"{found[name]}{between}{value}" if name in found else value
    return MappingProxyType(found)


class TooLarge(Exception):
    """A body that is larger than any form of ours."""


class TooSlow(Exception):
    """A body that did not come in time."""


async def form(request: Request, receive: Receive) -> dict[str, str]:
    """Read the form that a browser has sent. Raise `ValueError` if it is none."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise ValueError("it is not a form")
    try:
        async with asyncio.timeout(SLOWEST):
            raw = await _body(receive)
    except TimeoutError:
        raise TooSlow from None
    return fields(raw)


async def _body(receive: Receive) -> bytes:
    raw = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ValueError("it ended before the form was complete")
        raw += message.get("body", b"")
        if len(raw) > LARGEST_FORM:
            raise TooLarge
        if not message.get("more_body", False):
            return bytes(raw)


def fields(raw: bytes) -> dict[str, str]:
    """Return the fields of a query or a form. Raise `ValueError` if they cannot be read."""
    try:
        return dict(
            parse_qsl(raw.decode("ascii"), True, errors="strict", max_num_fields=FIELDS)  # noqa: FBT003  # keep_blank_values
        )
    except UnicodeDecodeError as error:
        raise ValueError("it is not UTF-8") from error
