"""The relay: spoils replies by a seeded choice, and requests too if it is told so. Otherwise it
passes them on as they are.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
from asyncio import StreamReader, StreamWriter
from typing import Self

from tests.robustness.hostile.framing import Framing
from tests.robustness.hostile.spoiling import CONTENT, FRAMING

GREETING = 4  # replies of a connection that are spared as a rule: else nobody would get any further
CONTENT_SHARE, FRAMING_SHARE, TIMING_SHARE = 0.20, 0.03, 0.04  # of the replies
LONGEST_DELAY = 1.5  # seconds


class Relay:
    """A way to one server, in a thread of its own. `with` starts it."""

    def __init__(
        self, host: str, port: int, framing: Framing, seed: int, *, both: bool = False
    ) -> None:
        """`both`: spoil requests too, which have the same framing."""
        self._target = host, port
        self._framing = framing
        self._both = both
        self._chance = random.Random(seed)  # noqa: S311  # to be played again
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.replies = self.spoiled = 0
        """Requests are counted too, if they are spoiled."""
        self.calm = False
        """Whether nothing is spoiled any more."""
        self.silent = False
        """Whether everything is dropped from now on."""
        self.address = ""

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(self._accept, "127.0.0.1", 0)

    async def _end(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, reader: StreamReader, writer: StreamWriter) -> None:
        task = asyncio.create_task(self._carry(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carry(self, reader: StreamReader, writer: StreamWriter) -> None:
        far: StreamWriter | None = None
        try:
            replies, far = await asyncio.open_connection(*self._target)
            ways = [
                asyncio.create_task(
                    self._spoil(reader, far) if self._both else self._pass(reader, far)
                ),
                asyncio.create_task(self._spoil(replies, writer)),
            ]
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
        except OSError:
            pass
        finally:
            for each in filter(None, (writer, far)):
                each.transport.abort()

    async def _pass(self, source: StreamReader, sink: StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65_536):
                if not self.silent:
                    sink.write(data)
                    await sink.drain()

    async def _spoil(self, source: StreamReader, sink: StreamWriter) -> None:
        count, kept = 0, b""
        with contextlib.suppress(OSError):
            while (frame := await self._framing(source)) is not None:
                count += 1
                self.replies += 1
                if self.silent:
                    continue
                raw: bytes | None = frame.raw
                roll = self._chance.random() * (10.0 if count <= GREETING else 1.0)
                if not self.calm and roll < CONTENT_SHARE + FRAMING_SHARE:
                    kinds = CONTENT if roll < CONTENT_SHARE else FRAMING
                    raw = self._chance.choice(kinds)(frame, self._chance)
                elif not self.calm and roll < CONTENT_SHARE + FRAMING_SHARE + TIMING_SHARE:
                    raw, kept = await self._delay(frame.raw, kept, sink)
                self.spoiled += raw != frame.raw
                if raw is None:
                    return
                sink.write(raw)
                if kept and raw:
                    sink.write(kept)
                    kept = b""
                await sink.drain()

    async def _delay(
        self, raw: bytes, kept: bytes, sink: StreamWriter
    ) -> tuple[bytes | None, bytes]:
        """Hold a reply up, put it behind the next one, or cut it off and end the connection: give
        what to send now, and what to send after that.
        """
        chance = self._chance
        deed = chance.choice(["delay", "reorder", "truncate", "stall", "lose"])
        if deed == "delay":
            await asyncio.sleep(chance.random() * LONGEST_DELAY)
            self.spoiled += 1
            return raw, kept
        if deed == "reorder":
            return b"", kept + raw
        if deed != "lose":
            sink.write(raw[: chance.randrange(len(raw) + 1)])
        if deed == "stall":
            await asyncio.sleep(LONGEST_DELAY * 2)
        return None, kept
