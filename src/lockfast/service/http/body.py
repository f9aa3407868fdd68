"""Reads the body of an HTTP request, within a limit of its size and of its time."""

from __future__ import annotations

import asyncio

from lockfast.service.access import Headers, values
from lockfast.service.http.messages import LARGEST_BODY
from lockfast.service.websocket import Receive

LIMIT = 10.0  # seconds for the whole body


class TooLarge(Exception):  # never leaves the package
    """The body is larger than any request."""


class TooSlow(Exception):  # never leaves the package
    """The body has not come in time."""


class ClientGone(Exception):  # never leaves the package
    """The client has left before the end of the body."""


async def read(headers: Headers, receive: Receive) -> bytes:
    """Return the body of a request."""
    lengths = values(headers, b"content-length")
    # Servers have checked the header. A text of 5,000 digits must not be made a number.
    if lengths and (len(lengths[0]) > len(str(LARGEST_BODY)) or int(lengths[0]) > LARGEST_BODY):
        raise TooLarge
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(LIMIT):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientGone
                part = message.get("body", b"")
                size += len(part)
                if size > LARGEST_BODY:
                    raise TooLarge
                parts.append(part)
                if not message.get("more_body", False):
                    return b"".join(parts) if len(parts) > 1 else part
    except TimeoutError:
        raise TooSlow from None
