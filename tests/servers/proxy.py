"""A TCP proxy in front of a server, with the faults of a network."""

import asyncio
import threading
from asyncio import StreamReader, StreamWriter
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Self, TypeVar

from tests.servers.copies import Copies
from tests.servers.link import Faults, Link, Predicate, Rule, Traffic
from tests.servers.process import wait_until

T = TypeVar("T")
_PATIENCE = 60.0  # for what the loop does at once: a starved machine, not a slow proxy


def _every(_request: bytes) -> bool:
    return True


class Proxy:
    """A proxy that a test puts between a client and host:port. `with` starts it.

    It knows no protocol: a "request" is what one read from a client gives, a "reply" what one
    read from the server gives. For a client that sends one command at a time they are what they
    are called. A fault is in force when the method that makes it returns.
    """

    def __init__(
        self, host: str, port: int, *, record: bool = False, bind: str = "127.0.0.1"
    ) -> None:
        self.host = bind
        self.port = 0
        self._target = (host, port)
        self._faults = Faults()
        self._traffic = Traffic(recorded=[] if record else None)
        self._copies = Copies()
        self._links: dict[Link, asyncio.Task[None]] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._listener: asyncio.Server | None = None
        self._error: BaseException | None = None

    @property
    def address(self) -> str:
        """The host and port, as host:port."""
        return f"{self.host}:{self.port}"

    @property
    def connections(self) -> int:
        """How many connections were made, ever."""
        return self._traffic.connections

    @property
    def open_connections(self) -> int:
        """How many connections the proxy keeps open, on either side."""
        return len(self._links)

    @property
    def bytes_to_server(self) -> int:
        """How many bytes were handed on to the server."""
        return self._traffic.bytes_to_server

    @property
    def bytes_to_client(self) -> int:
        """How many bytes were handed on to clients."""
        return self._traffic.bytes_to_client

    @property
    def turns(self) -> int:
        """How often a client spoke after it had been answered. With replies delayed for longer than
        it takes to send a request, that is the number of round trips.
        """
        return self._traffic.turns

    @property
    def requests(self) -> list[bytes]:
        """What came from clients, if the proxy was told to record it."""
        return list(self._traffic.recorded or [])

    @property
    def held(self) -> int:
        """How many requests are held."""
        return self._run(self._count_held())

    @property
    def doubled(self) -> int:
        """How many copies the server has answered, ever."""
        return self._copies.answered

    @property
    def holding(self) -> set[str]:
        """The addresses of the clients whose requests are held."""
        return self._run(self._list_holding())

    def start(self) -> Self:
        """Listen, on a port of its own."""
        self._thread.start()
        self._listener = self._run(self._listen())
        self.port = self._listener.sockets[0].getsockname()[1]
        return self

    def close(self) -> None:
        """Close every connection and stop listening; raise what a predicate has raised."""
        if self._loop.is_closed():
            return
        if self._thread.is_alive():
            self._run(self._shut())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
        self._loop.close()
        if self._error is not None:
            raise self._error

    def retarget(self, host: str, port: int) -> None:
        """Lead to another server from now on, and reset the connections to the old one."""
        self._target = (host, port)
        self.reset()

    def cut(self, *, requests: bool = True, replies: bool = True) -> None:
        """Drop everything silently, both ways or one; ends of connections are not seen either.

        A new connection is accepted (the kernel does that) but stays without an answer.
        """
        self._set(cut_requests=requests, cut_replies=replies)

    def heal(self) -> None:
        """End the cut, the delay and the losses; held requests wait for release_requests().

        A connection that lost bytes in the cut is reset, since no stream goes on after a gap.
        """
        self._run(self._heal())

    def reset(self) -> None:
        """Close all connections with RST, to the clients and to the server."""
        self._run(self._abort(lambda _link: True))

    def delay(self, seconds: float, *, replies: float = 0.0) -> None:
        """Hand every request on so much later, and every reply by the other measure."""
        self._set(delay_requests=seconds, delay_replies=replies)

    def lose_replies(self, count: int = 1) -> None:
        """Hand requests on, but lose the next replies, each with its connection.

        The client sees the connection close once the server has executed all it was sent.
        """
        self._set(lost_replies=count)

    def lose_reply_matching(self, predicate: Predicate, count: int | None = 1) -> None:
        """Lose the reply to a matching request, which is handed on, and the connection with it.

        None means every matching request, until heal().
        """
        self._set(lose_after=Rule(predicate, count))

    def hold_requests(self, predicate: Predicate = _every, count: int | None = None) -> None:
        """Keep requests in the proxy, even when their client goes, until release_requests().

        What a connection sends after a request that is held waits behind it. With a count, only
        so many are picked: hold the first copy of a request, and let the client's next one pass.
        """
        self._set(hold=Rule(predicate, count))

    def double_requests(self, predicate: Predicate, count: int, after: float = 0.0) -> None:
        """Deliver matching requests twice: the copy so much later, on a connection of its own.

        Only right for a server whose requests need nothing that was said before on theirs.
        """
        self._set(double=Rule(predicate, count), double_after=after)

    def wait_held(self, count: int = 1, timeout: float = 10.0) -> None:
        """Wait until so many requests are held."""
        wait_until(lambda: self.held >= count, f"the proxy holds {count} requests", timeout)

    def release_requests(self) -> int:
        """Deliver the held requests, hold no more, and tell how many they were.

        Returns when the server has answered them, though their clients may be gone.
        """
        return self._run(self._release())

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _run(self, work: Coroutine[None, None, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_PATIENCE)

    def _set(self, **faults: object) -> None:
        # Not by way of the loop, so that a predicate, which runs in it, may make faults too.
        for name, value in faults.items():
            setattr(self._faults, name, value)

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(self._accept, self.host, 0)

    def _accept(self, reader: StreamReader, writer: StreamWriter) -> None:
        self._traffic.connections += 1
        link = Link(self._faults, self._traffic, self._copies, reader, writer)
        task = asyncio.create_task(link.run(*self._target))
        self._links[link] = task
        task.add_done_callback(lambda _task: self._end(link))

    def _end(self, link: Link) -> None:
        task = self._links.pop(link)
        if not task.cancelled():
            self._error = self._error or task.exception()

    async def _count_held(self) -> int:
        return sum(1 for link in self._links for request in link.held if request)

    async def _list_holding(self) -> set[str]:
        return {link.client for link in self._links if any(link.held)}

    async def _heal(self) -> None:
        self._set(**vars(Faults(hold=self._faults.hold)))
        await self._abort(lambda link: link.torn)

    async def _abort(self, chosen: Callable[[Link], bool]) -> None:
        tasks = [task for link, task in self._links.items() if chosen(link)]
        for link, task in self._links.items():
            if task in tasks:
                link.abort()
                task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _release(self) -> int:
        self._faults.hold = None
        links = [link for link in self._links if link.held]
        count = sum(link.release() for link in links)
        await asyncio.gather(*(link.wait_executed() for link in links))
        return count

    async def _shut(self) -> None:
        if self._listener is not None:
            self._listener.close()
        await self._abort(lambda _link: True)
        await self._copies.close()
        # The aborted transports tell their sockets' end in the loop's next turn.
        await asyncio.sleep(0)
