"""Waiting for a socket, and the look-up of a host's name, in an event loop.

Callbacks of the event loop wait for a socket, and no reader task does. `asyncio.run` cancels every
task on Ctrl-C. Without the reader, the bodies whose release needs it would hang (trap 52).
"""

from __future__ import annotations

import asyncio
from socket import SOCK_STREAM

from lockfast.engines.sql.steps import READ, WRITE


async def ready(loop: asyncio.AbstractEventLoop, descriptor: int, events: int, left: float) -> bool:
    """Wait until a socket is ready for one of `events`; False if the seconds that are left pass."""
    found: asyncio.Future[bool] = loop.create_future()

    def tell(in_time: bool) -> None:  # noqa: FBT001  # a callback's argument
        if not found.done():
            found.set_result(in_time)

    timer = loop.call_later(max(left, 0.0), tell, False)  # noqa: FBT003  # see above
    if events & READ:
        loop.add_reader(descriptor, tell, True)  # noqa: FBT003  # see above
    if events & WRITE:
        loop.add_writer(descriptor, tell, True)  # noqa: FBT003  # see above
    try:
        return await found
    finally:
        timer.cancel()
        if events & READ:
            loop.remove_reader(descriptor)
        if events & WRITE:
            loop.remove_writer(descriptor)


async def look_up(loop: asyncio.AbstractEventLoop, host: str, left: float) -> list[str]:
    """Return the addresses of a host. Return none if the seconds that are left pass."""
    try:
        async with asyncio.timeout(left):
            infos = await loop.getaddrinfo(host, None, type=SOCK_STREAM)
    except (OSError, UnicodeError):  # TimeoutError is an OSError
        return []
    return [str(info[4][0]) for info in infos]
