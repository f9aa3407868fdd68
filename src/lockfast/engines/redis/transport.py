"""Code that both Redis transports share: addresses, login, errors, and the transport's methods.

lockfast speaks the Redis protocol over a plain socket with hiredis's parser, and does not use
redis-py. A command through redis-py costs two to five times as much, and redis-py sends a claim
again by itself. Its asyncio connection is a stream reader, and Ctrl-C cancels the reader together
with the tasks that need it.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Protocol

import hiredis

from lockfast.engines.redis.channels import Change
from lockfast.engines.redis.keys import command
from lockfast.engines.server_clock import ServerClock
from lockfast.engines.tls import Tls
from lockfast.errors import EngineRefused, EngineUnavailable
from lockfast.url import Secret

UNITS = 1000  # per second: the scripts return the server's time in ms
END = 2**33  # seconds since 1970: a server's time from here on is invalid
IO = 5.0  # seconds without an answer after which a transport closes a connection
FRESH = 2.0
"""Seconds after which a transport checks an idle connection with a PING before it uses it. The
server's `timeout`, a load balancer, a restart or a NAT may have ended it without notice."""
DOUBT = 1.0  # seconds that such a PING may take, or a third of the remaining time if that is less
LATER = frozenset(
    [
        "ASK",  # nodes send ASK and MOVED while they do not agree yet on the owner of a slot
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
"""Error codes of a server that cannot work now and has done nothing. A retry may succeed."""


RIGHTS = (
    "~lockfast:* &lockfast:* +eval +evalsha +hello +ping +time +select +subscribe +unsubscribe "
    "+scan +client +get +mget +set +del +pexpire +pexpireat +pttl +zadd +zrem +zcard +zrange "
    "+zrangebyscore +zrevrangebyscore +zrank +zscore +hget +hset +hdel +hlen +publish +info "
    "+cluster|slots +asking"
)
"""The ACL rights that a Redis user needs for lockfast's commands and for those in its scripts."""
PING = command("PING")
DEMOTED = "READONLY"
"""The error code of a server that has become a replica. Its DNS name or virtual address may lead to
the new primary, but only a new connection reaches that."""


WRAPPED = re.compile(
    r"(?:(?:ERR )?Error running script.*?)?"
    r"@user_script: ?\d+: (?:@user_script: ?\d+: )?-?([A-Z]+) ",
    re.DOTALL,
)


class Address(NamedTuple):
    """The host and port of one server or sentinel."""

    host: str
    port: int
    sentinel: bool = False

    def __str__(self) -> str:
        """Return `host:port`, as in a URL."""
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Login:
    """The user, password, database and TLS context with which a client logs in to a server."""

    username: str | None = None
    secret: Secret = field(default=lambda: None, repr=False)
    database: int = 0
    sentinel_password: str | None = field(default=None, repr=False)
    tls: Tls[ssl.SSLContext] | None = None
    rights: ClassVar[str] = RIGHTS
    """The rights that the user needs. An error about a missing right names all of them."""

    def context(self) -> ssl.SSLContext | None:
        """Return the TLS context for a new connection, with the files as they are now."""
        return None if self.tls is None else self.tls.current()

    def greeting(self, address: Address) -> list[bytes]:
        """Return the packed commands of a login. A sentinel has no databases and tells no time."""
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

    @classmethod
    def welcome(cls, address: Address, replies: Sequence[Any], received: float) -> ServerClock:
        """Return the server's clock from the replies to a login, or raise if the login failed."""
        for reply in replies:
            if isinstance(reply, hiredis.ReplyError):
                raise failure(reply, address, cls.rights)
        if address.sentinel:  # it was not asked for its time, and no claim needs its clock
            return ServerClock(0, received, UNITS)
        try:
            seconds, micros = map(int, replies[-1])
            if not (0 < seconds < END and 0 <= micros < 10**6):
                raise ValueError("no time")
            return ServerClock(seconds * UNITS + micros // 1000, received, UNITS)
        except (TypeError, ValueError) as error:
            raise EngineUnavailable(
                f"Redis at {address} does not return its time", sent=False
            ) from error


def code(error: hiredis.ReplyError) -> str:
    """Return the code of an error reply.

    Redis 6.2 wraps the errors of a script's commands: "ERR Error running script (call to f_…):
    @user_script:36: -READONLY You can't write against a read only replica." If the script has
    caught the error, the text begins at "@user_script".
    """
    text = str(error)
    wrapped = WRAPPED.match(text)
    return wrapped[1] if wrapped else text.partition(" ")[0]


def failure(
    error: hiredis.ReplyError, address: Address, rights: str = RIGHTS
) -> EngineUnavailable | EngineRefused:
    """Return lockfast's error for an error reply, with a hint at what to do. `rights`: those that
    the engine needs.
    """
    text = str(error)
    what = code(error)
    if what in LATER:
        return EngineUnavailable(f"Redis at {address} is not ready: {text}", sent=False)
    hints = {
        "NOAUTH": "put the password into the URL: redis://:PASSWORD@host",
        "WRONGPASS": "the user or password in the URL is wrong",
        "NOPERM": f"an administrator can grant all that lockfast needs: ACL SETUSER NAME {rights}",
        "OOM": "Redis is out of memory: raise maxmemory, and keep maxmemory-policy noeviction",
    }
    hint = hints.get(what)
    return EngineRefused(f"Redis at {address}: {text}" + (f" ({hint})" if hint else ""))


class Transport(Protocol):
    """A client's connections to its servers, for threads or for asyncio."""

    clocks: dict[Address, ServerClock]
    """Per server, the clock that translates local instants to server times, never too late ones."""

    trouble: Callable[[], object]
    """Called when a server did not answer. It may no longer be the right server to ask."""

    async def call(self, address: Address, packet: bytes, deadline: float) -> Any:
        """Send one command and return its reply. An error reply is returned, not raised."""
        ...

    async def pipeline(
        self, address: Address, packets: Sequence[bytes], deadline: float, *, heart: bool
    ) -> list[Any]:
        """Send commands together and return their replies. `heart`: use the heart's connection."""
        ...

    def forget(self, address: Address) -> None:
        """Close all connections to a server, at once or when their users are done with them."""

    def post(self, address: Address, packet: bytes) -> None:
        """Send a command after all earlier ones, if that needs no waiting. Ignore its reply."""

    async def ear(self, address: Address, deadline: float) -> Any:
        """Return the heart's connection to a server, on which messages arrive. Connect if needed.
        A new connection has subscribed to nothing.
        """
        ...

    async def change(
        self, ear: Any, changes: Sequence[Change], deadline: float
    ) -> list[hiredis.ReplyError | None]:
        """Send commands to an ear together. Return for each None, or the error that refused it."""
        ...

    async def listen(self, address: Address, deadline: float | None) -> list[bytes]:
        """Wait for messages on the ear of a server, or for `rouse`."""
        ...

    async def pause(self, deadline: float | None) -> None:
        """Wait until `rouse` is called or the deadline passes."""

    def rouse(self) -> None:
        """Make `listen` or `pause` return now."""

    def reset(self) -> None:
        """Forget all connections, because the process has forked."""

    async def close(self) -> None:
        """Close all connections."""
