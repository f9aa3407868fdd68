"""What both transports share: addresses, the handshake, errors, and what the engine asks of them.

The protocol is spoken here, over a plain socket with hiredis's parser, and not through redis-py:
its commands cost two to five times as much, it sends a claim again by itself, and its asyncio
connection is a stream reader, which one Ctrl-C cancels together with those who need it.
"""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import hiredis

from lockfast.engines.redis.keys import command
from lockfast.engines.server_clock import ServerClock
from lockfast.engines.tls import Tls
from lockfast.errors import EngineRefused, EngineUnavailable
from lockfast.url import Secret

UNITS = 1000  # the scripts tell the server's time in ms
END = 2**33  # in seconds since 1970: what is beyond is no time
IO = 5.0  # seconds of silence after which a connection is given up
FRESH = 2.0
"""Seconds after which an idle connection is asked with a PING whether it still works: a server's
`timeout`, a load balancer, a restart or a NAT that forgets may have ended it without a word."""
DOUBT = 1.0  # seconds at most that such a PING may take, and a third of the time there is
KEEPALIVE = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
"""Seconds and a count. Traffic on an idle connection keeps a NAT from forgetting it."""
LATER = frozenset(
    [
        "ASK",  # this and MOVED come from nodes that do not agree yet on who has a slot
        "BUSY",
        "CLUSTERDOWN",
        "LOADING",
        "MASTERDOWN",
        "MOVED",
        "NOREPLICAS",
        "READONLY",
        "TRYAGAIN",
    ]
)
"""Errors of a server that cannot work now, and has done nothing: worth another attempt."""


RIGHTS = (
    "~lockfast:* &lockfast:* +eval +evalsha +hello +ping +time +select +subscribe +scan +client "
    "+get +mget +set +del +pexpire +pexpireat +pttl +zadd +zrem +zcard +zrange +zrangebyscore "
    "+zrevrangebyscore +zrank +zscore +hget +hset +hdel +hlen +publish +info +cluster|slots +asking"
)
"""The rights that a user of Redis needs: for the commands that we send, and for our scripts."""
PING = command("PING")
DEMOTED = "READONLY"
"""The error of a server that is a replica now. Behind a DNS name or a virtual address the primary
is another one, and only a new connection finds it."""


WRAPPED = re.compile(
    r"(?:ERR )?Error running script.*?@user_script: ?\d+: (?:@user_script: ?\d+: )?-?([A-Z]+) ",
    re.DOTALL,
)


class Address(NamedTuple):
    """One server."""

    host: str
    port: int
    sentinel: bool = False

    def __str__(self) -> str:
        """Show it as in a URL."""
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Login:
    """How to greet a server."""

    username: str | None = None
    secret: Secret = field(default=lambda: None, repr=False)
    database: int = 0
    sentinel_password: str | None = field(default=None, repr=False)
    tls: Tls[ssl.SSLContext] | None = None

    def context(self) -> ssl.SSLContext | None:
        """Return the TLS context for a new connection, with the files as they are now."""
        return None if self.tls is None else self.tls.current()

    def greeting(self, address: Address) -> list[bytes]:
        """Pack what is said first. A sentinel has neither databases nor a clock to show."""
        password = self.sentinel_password if address.sentinel else self.secret()
        hello: list[str | bytes | int] = ["HELLO", 3]
        if password is not None:
            user = "default" if address.sentinel else self.username or "default"
            hello += ["AUTH", user, password]
        if address.sentinel:
            return [command(*hello)]
        hello += ["SETNAME", "lockfast"]
        select = [command("SELECT", self.database)] if self.database else []
        return [command(*hello), *select, command("TIME")]

    @staticmethod
    def welcome(address: Address, replies: Sequence[Any], received: float) -> ServerClock:
        """Check the replies to a login, and return the server's clock."""
        for reply in replies:
            if isinstance(reply, hiredis.ReplyError):
                raise failure(reply, address)
        if address.sentinel:  # it is asked for no time, and keeps no claims
            return ServerClock(0, received, UNITS)
        try:
            seconds, micros = map(int, replies[-1])
            if not (0 < seconds < END and 0 <= micros < 10**6):
                raise ValueError("no time")
            return ServerClock(seconds * UNITS + micros // 1000, received, UNITS)
        except (TypeError, ValueError) as error:
            raise EngineUnavailable(f"Redis at {address} tells no time", sent=False) from error


class Sock(Protocol):
    """What `keep_alive` needs of a socket; uvloop shows something of its own."""

    def setsockopt(self, level: int, optname: int, value: int, /) -> None:
        """Set an option."""


def keep_alive(sock: Sock) -> None:
    """Have the kernel send something now and then, and notice a peer that is gone."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE.items():
        option = getattr(socket, name, None)  # not on every system
        if option is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)


def reason(error: BaseException) -> str:
    """Say what went wrong, also for errors that say nothing, like a timeout's."""
    return str(error) or type(error).__name__


def code(error: hiredis.ReplyError) -> str:
    """Return the code of an error reply.

    Redis 6.2 wraps the errors of a script's commands: "ERR Error running script (call to f_…):
    @user_script:36: -READONLY You can't write against a read only replica."
    """
    text = str(error)
    wrapped = WRAPPED.match(text)
    return wrapped[1] if wrapped else text.partition(" ")[0]


def failure(error: hiredis.ReplyError, address: Address) -> EngineUnavailable | EngineRefused:
    """Turn an error reply into ours, with what to do next."""
    text = str(error)
    what = code(error)
    if what in LATER:
        return EngineUnavailable(f"Redis at {address} cannot work now: {text}", sent=False)
    hints = {
        "NOAUTH": "put the password into the URL: redis://:PASSWORD@host",
        "WRONGPASS": "the user or password in the URL is wrong",
        "NOPERM": f"an administrator can grant all that lockfast needs: ACL SETUSER NAME {RIGHTS}",
        "OOM": "Redis is full: raise maxmemory; locks must not be evicted",
    }
    hint = hints.get(what)
    return EngineRefused(f"Redis at {address}: {text}" + (f" ({hint})" if hint else ""))


class Transport(Protocol):
    """A transport, for threads or for asyncio."""

    clocks: dict[Address, ServerClock]
    """Per server, what to add to our clock for at most the server's."""

    trouble: Callable[[], object]
    """Called when a server did not answer: it may not be the right one any more."""

    async def call(self, address: Address, packet: bytes, deadline: float) -> Any:
        """Send one command and give its reply; an error reply is returned, not raised."""
        ...

    async def pipeline(
        self, address: Address, packets: Sequence[bytes], deadline: float, *, heart: bool
    ) -> list[Any]:
        """Send commands together and give their replies; on the heart's own connection or not."""
        ...

    def forget(self, address: Address) -> None:
        """Close all connections to a server, at once or when their user is done with them."""

    def post(self, address: Address, packet: bytes) -> None:
        """Send a command behind what was sent before, if that can be done at once; no reply."""

    async def listen(
        self, address: Address, channel: str, deadline: float | None
    ) -> list[bytes] | None:
        """Sleep until messages come on the channel; None when it has just been subscribed to."""
        ...

    async def pause(self, deadline: float | None) -> None:
        """Sleep until a rouse."""

    def rouse(self) -> None:
        """End a `listen` or a `pause` now."""

    def reset(self) -> None:
        """Forget all connections: the process has forked."""

    async def close(self) -> None:
        """Close all connections."""
