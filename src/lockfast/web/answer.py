"""An answer of the dashboard, with the headers that tell a browser what it must not do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

HTML, TEXT = "text/html; charset=utf-8", "text/plain; charset=utf-8"
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
SAFE = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


@dataclass(frozen=True, slots=True)
class Answer:
    """What is sent back."""

    body: bytes
    status: int = 200
    kind: str = HTML
    headers: tuple[tuple[bytes, bytes], ...] = ()
    cache: str = "no-store"


def said(status: int, words: str) -> Answer:
    """Return an answer of one line of text."""
    return Answer(f"{words}\n".encode(), status, TEXT)


def elsewhere(where: str) -> Answer:
    """Return the answer that the browser should get another page."""
    return Answer(b"", 303, TEXT, ((b"location", where.encode()),))


async def respond(send: Send, answer: Answer, *, bare: bool) -> None:
    """Send an answer. `bare`: without its body, as for HEAD."""
    headers = [
        (b"content-type", answer.kind.encode()),
        (b"content-length", b"%d" % len(answer.body)),
        (b"cache-control", answer.cache.encode()),
        *SAFE,
        *answer.headers,
    ]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if bare else answer.body})
