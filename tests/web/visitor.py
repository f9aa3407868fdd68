"""A visitor of the dashboard: sends requests to the application, as an ASGI server would."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlencode, urlsplit

from lockfast.web import App
from lockfast.web.answer import Message

Headers = Sequence[tuple[str, str]]


class Got:
    """An answer."""

    def __init__(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        self.status = status
        self.headers = {name.decode(): value.decode() for name, value in headers}
        self.names = [name.decode() for name, _ in headers]
        self.body = body

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode()


class Visitor:
    """A browser on some machine."""

    def __init__(
        self,
        app: App,
        *,
        root: str = "",
        address: str | None = "127.0.0.1",
        host: str = "localhost",
    ) -> None:
        self.app = app
        self._root = root
        self._address = address
        self.host = host

    async def get(self, path: str, headers: Headers = (), **query: object) -> Got:
        """Get a page."""
        return await self.send("GET", path, headers=headers, query=urlencode(query))

    async def post(self, path: str, form: Mapping[str, object], headers: Headers = ()) -> Got:
        """Send a form."""
        kind = ("content-type", "application/x-www-form-urlencoded")
        body = urlencode(form).encode()
        return await self.send("POST", path, headers=[kind, *headers], chunks=[body])

    async def send(
        self,
        method: str,
        path: str,
        *,
        headers: Headers = (),
        query: str = "",
        chunks: Sequence[bytes] = (b"",),
        **more: Any,  # noqa: ANN401  # of a scope
    ) -> Got:
        """Send a request."""
        parts = urlsplit(path)
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": f"{self._root}{parts.path}",
            "root_path": self._root,
            "query_string": (query or parts.query).encode(),
            "headers": [
                (name.encode(), value.encode("latin-1"))
                for name, value in [("host", self.host), *headers]
                if value
            ],
            "client": None if self._address is None else (self._address, 50_000),
            **more,
        }
        left = list(chunks)
        sent: list[Message] = []

        async def receive() -> Message:
            if not left:
                return {"type": "http.disconnect"}
            body = left.pop(0)
            return {"type": "http.request", "body": body, "more_body": bool(left)}

        async def send(message: Message) -> None:
            sent.append(message)

        await self.app(scope, receive, send)
        start, *rest = sent
        return Got(start["status"], start["headers"], b"".join(each["body"] for each in rest))


class Parts(HTMLParser):
    """What a browser makes of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.isolated: list[str] = []
        """The texts in `bdi`, which cannot turn the text around them."""
        self._inside = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: object) -> None:  # noqa: ARG002  # the parser's
        self.tags.append(tag)
        self._inside = tag == "bdi"
        if self._inside:
            self.isolated.append("")

    def handle_endtag(self, tag: str) -> None:  # noqa: ARG002  # the parser's
        self._inside = False

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.isolated[-1] += data
