"""The Redis guard for threads and asyncio. Both share the coroutines of `RedisGuardCore`."""

from __future__ import annotations

import hashlib
import inspect
import weakref
from collections.abc import Awaitable, Sequence
from importlib.resources import files
from typing import Any, Protocol

from lockfast.errors import LockfastError
from lockfast.guards.mark import Holder, Shown, refused, shown
from lockfast.guards.redis import commands as known
from lockfast.guards.redis.commands import Command, Rule, Word
from lockfast.primitives.lease import LeaseCore
from lockfast.runtime.drive import blocking

_SCRIPT = files("lockfast.guards.redis").joinpath("apply.lua").read_text("utf-8")
_DIGEST = hashlib.sha1(_SCRIPT.encode(), usedforsecurity=False).hexdigest()
_INFO = "return redis.call('COMMAND', 'INFO', ARGV[1])"
_KEYS = """
local keys = redis.pcall('COMMAND', 'GETKEYS', unpack(ARGV))
return keys.err and {} or keys  -- PUBLISH has none
"""


def _mark(tag: str | None, name: str) -> str:
    """Return the key of the mark of a lock.

    The hash tag comes first, and ends at the first closing brace. So a brace in the name cannot
    change the tag, and two different pairs of tag and name never have the same key.
    """
    return f"lockfast:mark:{{{tag or name.partition('}')[0]}}}{name}"


class Redis(Protocol):
    """A blocking client of redis-py or valkey-py."""

    def execute_command(self, *args: Word) -> Any:  # noqa: ANN401  # whatever Redis answers
        """Send one command."""


class AsyncRedis(Protocol):
    """An asyncio client of redis-py or valkey-py."""

    def execute_command(self, *args: Word) -> Awaitable[Any]:
        """Send one command."""


class PartlyApplied(LockfastError):
    """A command of the list failed. The commands before it stay applied: Redis has no rollback.

    Attributes:
        name: The name of the lock.
        failed: The index of the command that failed.
        replies: The replies to the commands before it.
    """

    anchor = "partly-applied"

    def __init__(self, name: str, failed: int, replies: Sequence[Any], error: Exception) -> None:
        """Take the lock's name, the failed command's index, the replies before it and its error."""
        self.name = name
        self.failed = failed
        self.replies = list(replies)
        super().__init__(
            f"command {failed + 1} for {name!r} failed: {error}. The {failed} before it are "
            "applied, and those after it are not."
        )


class RedisGuardCore:
    """The shared part of the sync and async guards."""

    def __init__(self, client: Redis | AsyncRedis, tag: str | None) -> None:
        """Take the client and the hash tag. Nothing is sent."""
        if inspect.iscoroutinefunction(client.execute_command) is not self._tasks:
            other = "RedisGuard" if self._tasks else "AsyncRedisGuard"
            kind = "a blocking" if self._tasks else "an asyncio"
            raise TypeError(f"this is {kind} client: use {other}")
        if tag is not None and (not tag or "}" in tag):
            raise ValueError(f"a hash tag must not be empty or contain a closing brace: {tag!r}")
        self._client = client
        self._tag = tag
        self._rules: dict[Word, Rule] = {}
        self._fitting: set[tuple[Word, int]] = set()
        """Names and lengths of commands that were checked, so that each pair is checked once."""
        self._cluster = hasattr(client, "keyslot")
        self._last: tuple[weakref.ref[LeaseCore], tuple[Shown, str, str]] | None = None

    _tasks: bool

    async def _send(self, *args: Word) -> Any:  # noqa: ANN401  # whatever Redis answers
        reply = self._client.execute_command(*args)
        return await reply if self._tasks else reply

    async def _seal(self, lease: Holder) -> None:
        """Store the token, so that this Redis rejects earlier holders from now on.

        Call it right after acquiring, before the first read.

        Args:
            lease: The lease, or what `parse` of the HTTP guard returned.

        Raises:
            StaleToken: The guard has seen a higher token. The lease is LOST.
            TypeError: The lease is a permit of a semaphore.
        """
        await self._apply(lease, ())

    async def _apply(self, lease: Holder, commands: Sequence[Command]) -> list[Any]:
        """Apply all commands in one atomic step, or raise `StaleToken` and apply none.

        Args:
            lease: The lease, or what `parse` of the HTTP guard returned.
            commands: Sequences of words, such as `("SET", "total", 42)`.

        Returns:
            The replies as Redis sends them. `SET` returns b"OK", not True.

        Raises:
            StaleToken: The guard has seen a higher token. The lease is LOST.
            ValueError: A command is malformed, or on a cluster a key is in another slot than the
                mark. Nothing is applied.
            PartlyApplied: A command failed because of the data, such as a wrong type. The commands
                before it stay applied.
            TypeError: A command's name is not a str, or the lease is a permit of a semaphore.
        """
        at, mark, show = self._shows(lease)
        words: list[Word] = []
        for command in commands:
            size = len(command)
            if not size or (command[0], size) not in self._fitting:
                await self._check(mark, command)
            words += (size, *command)
        found = await self._keys(mark, commands) if self._cluster else ()
        args = (1 + len(found), mark, *found, show, *words)
        try:
            reply: Any = self._client.execute_command("EVALSHA", _DIGEST, *args)
            if self._tasks:  # not by `_send`, which would cost another coroutine for every write
                reply = await reply
        except Exception as error:
            if type(error).__name__ != "NoScriptError":  # redis-py's, or valkey-py's
                raise
            reply = await self._send("EVAL", _SCRIPT, *args)
        if not isinstance(reply, list):
            raise refused(lease, int(reply))
        if reply and isinstance(reply[-1], Exception):
            *done, failure = reply
            raise PartlyApplied(at.name, len(done), done, failure) from failure
        return reply

    def _shows(self, lease: Holder) -> tuple[Shown, str, str]:
        """Return the values of a lease, the key of its mark, and the script's first argument.

        The result is cached for the last lease, since it is the same for all of its writes.
        """
        last = self._last
        if last is not None and last[0]() is lease:
            return last[1]
        at = shown(lease)
        show = f"{at.floor} {at.token}." if at.shared else f"{at.token} {at.id}"
        shows = at, _mark(self._tag, at.name), show
        if isinstance(lease, LeaseCore):
            self._last = weakref.ref(lease), shows
        return shows

    async def _check(self, mark: str, command: Command) -> None:
        """Raise if a command's name or its number of words is wrong."""
        if not command:
            raise ValueError(
                "a command must be a sequence of words, such as ('SET', 'total', 42), and this one "
                "is empty: nothing was applied"
            )
        name = command[0]
        if not isinstance(name, str):
            raise TypeError(f"a command must begin with its name, a str, not {name!r}")
        if name not in self._rules:  # in a script with the mark as key: it goes to the right node
            (info,) = await self._send("EVAL", _INFO, 1, mark, name)
            self._rules[name] = known.rule(info, name)
        known.fits(self._rules[name], command)
        self._fitting.add((name, len(command)))

    async def _keys(self, mark: str, commands: Sequence[Command]) -> list[bytes]:
        """Return the keys of all commands. Raise unless they are in the slot of the mark."""
        found: list[bytes] = []
        for command in commands:
            rule = self._rules[command[0]]
            if rule.first:
                found += known.keys(rule, command)
            else:
                asked = await self._send("EVAL", _KEYS, 1, mark, *command)
                found += [known.raw(key) for key in asked]
        known.together(mark.encode(), found)
        return found


class RedisGuard(RedisGuardCore):
    """Rejects writes to Redis by a process that has lost its lock. For blocking clients.

    The mark is as durable as this Redis. A failover to a replica that has not received the mark, or
    a restart without saved data, resets the mark together with the data. After that a stale holder
    can write again, until the new holder uses the guard once more.

    Args:
        client: A client of redis-py or valkey-py, also a `RedisCluster`.
        tag: On a cluster, the hash tag that your keys share. It defaults to the lock's name: the
            keys `{invoice:42}:total` and `invoice:42` are in the same slot as the mark of the lock
            `invoice:42`.

    Raises:
        TypeError: It is an asyncio client.
        ValueError: The tag is empty or has a closing brace.

    Example:
        ::

            guard = RedisGuard(redis.Redis.from_url("redis://localhost:6379"))
            with client.lock("invoice:42", ttl=10) as lease:
                guard.seal(lease)
                guard.apply(lease, [("SET", "invoice:42:paid", 1), ("INCR", "invoices:paid")])
    """

    _tasks = False

    def __init__(self, client: Redis, *, tag: str | None = None) -> None:
        """Take the client and the hash tag. Nothing is sent."""
        super().__init__(client, tag)

    seal = blocking(RedisGuardCore._seal)
    apply = blocking(RedisGuardCore._apply)


class AsyncRedisGuard(RedisGuardCore):
    """Rejects writes to Redis by a process that has lost its lock. For asyncio clients.

    Its limits are those of `RedisGuard`.

    Args:
        client: An asyncio client of redis-py or valkey-py, also a `RedisCluster`.
        tag: On a cluster, the hash tag that your keys share. See `RedisGuard`.

    Raises:
        TypeError: It is a blocking client.
        ValueError: The tag is empty or has a closing brace.

    Example:
        ::

            store = redis.asyncio.Redis.from_url("redis://localhost:6379")
            guard = AsyncRedisGuard(store)
            async with client.lock("invoice:42", ttl=10) as lease:
                await guard.seal(lease)
                await guard.apply(lease, [("SET", "invoice:42:paid", 1)])
            await store.aclose()
    """

    _tasks = True

    def __init__(self, client: AsyncRedis, *, tag: str | None = None) -> None:
        """Take the client and the hash tag. Nothing is sent."""
        super().__init__(client, tag)

    seal = RedisGuardCore._seal
    apply = RedisGuardCore._apply
