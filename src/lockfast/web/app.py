"""The dashboard as an ASGI application: finds the page for a request, and who may see it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from lockfast.aio import AsyncClient
from lockfast.web.access import Resolve, User, user_of
from lockfast.web.answer import Answer, Receive, Send, elsewhere, respond, said
from lockfast.web.pages import PAGES, engines
from lockfast.web.pages.view import Broken, View
from lockfast.web.request import Request, TooLarge, TooSlow
from lockfast.web.source import Source
from lockfast.web.static_files import static

Client = AsyncClient | str | None
NAME = re.compile("[A-Za-z0-9_.-]{1,64}")
STATIC = "static"
NOT_HERE = (
    "lockfast: the dashboard is for browsers on this machine. Open it as http://localhost or "
    "http://127.0.0.1, without a proxy in between. To let others see it, pass resolve= to "
    "lockfast.web.app()"
)
NOT_YOU = "lockfast: you may not see this dashboard"


class App:
    """The dashboard of one engine, or of several side by side."""

    def __init__(
        self,
        client: Client | Mapping[str, Client] = None,
        *,
        resolve: Resolve | None = None,
        broken: Broken | None = None,
    ) -> None:
        """Take what `app` takes. Nothing is sent before the first request.

        `broken`: called with the request, the holder and the reason when a lock was broken.
        """
        several = client if isinstance(client, Mapping) else {"": client}
        for name in several:
            if several is client and (not NAME.fullmatch(name) or name in {STATIC, ".", ".."}):
                raise ValueError(
                    f"an engine cannot be called {name!r}: use letters, digits, _, . and -, at "
                    f"most 64, and not {STATIC!r}"
                )
        if not several:
            raise ValueError("the dashboard needs at least one engine")
        self._given = dict(several)
        self._several = several is client
        self._resolve = resolve
        self._broken = broken or _ignored
        self._sources: dict[str, Source] = {}
        self._closed = False

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Serve one HTTP request, or the server's lifespan if the application stands alone."""
        kind = scope["type"]
        if kind == "http":
            request = Request(scope)
            answer = await self._answer(request, receive)
            await respond(send, answer, bare=request.method == "HEAD")
        elif kind == "lifespan":
            await self._lifespan(receive, send)
        elif kind == "websocket":
            await receive()
            await send({"type": "websocket.close"})
        else:
            raise ValueError(f"the dashboard does not serve {kind!r}")

    async def close(self) -> None:
        """Stop reading the engines, and disconnect the clients that were made from a URL."""
        self._closed = True
        sources, self._sources = self._sources, {}
        for source in sources.values():
            await source.close()

    async def _answer(self, request: Request, receive: Receive) -> Answer:
        if self._closed:
            return said(503, "lockfast: the dashboard is closed")
        user = await user_of(request, self._resolve)
        if user is None:
            return said(403, NOT_HERE if self._resolve is None else NOT_YOU)
        try:
            return await self._find(request, receive, user)
        except TooLarge:
            return said(413, "lockfast: the form is too large")
        except TooSlow:
            return said(408, "lockfast: the form did not come in time")
        except ValueError as error:
            return said(400, f"lockfast: the request cannot be read: {error}")

    def sources(self) -> Mapping[str, Source]:
        """Return the engines by name. The first call makes their clients."""
        if not self._sources:
            self._sources = {name: Source(name, each) for name, each in self._given.items()}
        return self._sources

    async def _find(self, request: Request, receive: Receive, user: User) -> Answer:
        sources = self.sources()
        first, slash, rest = request.path[1:].partition("/")
        if request.path.startswith(f"/{STATIC}/"):
            return _read_only(request) or static(rest, request.query.get("v"))
        if not request.path or (self._several and first in sources and not slash):
            return elsewhere(f"{request.mount}{request.path}/")
        if not self._several:
            view = View(sources[""], user, self._broken, "")
            return await self._page(request, receive, view, request.path)
        if not first:
            return _read_only(request) or await engines.page(request, user, sources)
        if first not in sources:
            return said(404, "lockfast: there is no such engine")
        return await self._page(
            request,
            receive,
            View(sources[first], user, self._broken, f"/{first}"),
            f"/{rest}",
        )

    async def _page(self, request: Request, receive: Receive, view: View, path: str) -> Answer:
        page = PAGES.get((request.method.replace("HEAD", "GET"), path))
        if page is not None:
            return await page(request, receive, view)
        if any(path == each for _, each in PAGES):
            return said(405, "lockfast: not allowed")
        why = "The dashboard has no page at this address."
        return view.show(
            request, "refused.html", status=404, title_words="No such page", why=why, more=""
        )

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        """Close at the server's end. A mounted application never gets here."""
        while True:
            kind = (await receive())["type"]
            if kind == "lifespan.startup":
                self._closed = False
            else:
                await self.close()
            await send({"type": f"{kind}.complete"})
            if kind == "lifespan.shutdown":
                return


def _ignored(*_: object) -> None:
    """Do nothing about a lock that was broken."""


def _read_only(request: Request) -> Answer | None:
    return None if request.method in {"GET", "HEAD"} else said(405, "lockfast: not allowed")


def app(client: Client | Mapping[str, Client] = None, *, resolve: Resolve | None = None) -> App:
    """Return the dashboard, an ASGI application. Mount it in another one, or serve it alone.

    Args:
        client: An `AsyncClient`, the URL of an engine, or None for the environment variable
            LOCKFAST_URL. A mapping of names to these shows several engines side by side.
        resolve: Called with a `Request`, before each answer. It returns the `User`, or None to
            refuse the request, and may be a coroutine function. Without it, the dashboard answers
            browsers on this machine only, and nobody can break a lock.

    Returns:
        The application. Await its `close()` when the host application ends. Served alone, it
        closes by itself.

    Raises:
        ValueError: There is no engine for a URL, or the name of an engine cannot be in a path.
        TypeError: A URL has the wrong type.
        ImportError: The engine's driver is not installed.

    Example:
        ::

            import lockfast.web

            dashboard = lockfast.web.app("redis://localhost:6379")
    """
    return App(client, resolve=resolve)
