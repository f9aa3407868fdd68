"""The Redis guard for threads and asyncio: `seal` and `apply`. The logic is one coroutine each."""

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
    """Return the key of a mark.

    The tag stands first, and ends at the first closing brace: a brace in the name cannot move it,
    and no two pairs of a tag and a name make one key.
    """
    return f"lockfast:mark:{{{tag or name.partition('}')[0]}}}{name}"


class Redis(Protocol):
    """A client of redis-py or valkey-py."""

    def execute_command(self, *args: Word) -> Any:  # noqa: ANN401  # whatever Redis answers
        """Send one command."""


class AsyncRedis(Protocol):
    """An asyncio client of redis-py or valkey-py."""

    def execute_command(self, *args: Word) -> Awaitable[Any]:
        """Send one command."""


class PartlyApplied(LockfastError):
    """A command of the list failed. Redis rolls nothing back: those before it stay applied."""

    def __init__(self, name: str, failed: int, replies: Sequence[Any], error: Exception) -> None:
        """Name the resource, the place of the command that failed, and the replies before it."""
        self.name = name
        self.failed = failed
        self.replies = list(replies)
        super().__init__(
            f"command {failed + 1} for {name!r} failed: {error}. The {failed} before it were "
            "applied, and those after it were not."
        )


class RedisGuardCore:
    """What the guard does in threads and asyncio."""

    def __init__(self, client: Redis | AsyncRedis, tag: str | None) -> None:
        """Nothing is sent."""
        if inspect.iscoroutinefunction(client.execute_command) is not self._tasks:
            other = "RedisGuard" if self._tasks else "AsyncRedisGuard"
            kind = "a blocking" if self._tasks else "an asyncio"
            raise TypeError(f"this is {kind} client: use {other}")
        if tag is not None and (not tag or "}" in tag):
            raise ValueError(f"a hash tag is not empty and has no closing brace: {tag!r}")
        self._client = client
        self._tag = tag
        self._rules: dict[Word, Rule] = {}
        self._fitting: set[tuple[Word, int]] = set()
        """Names and sizes of commands that were found right: most are of a few kinds."""
        self._cluster = hasattr(client, "keyslot")
        self._last: tuple[weakref.ref[LeaseCore], tuple[Shown, str, str]] | None = None

    _tasks: bool

    async def _send(self, *args: Word) -> Any:  # noqa: ANN401  # whatever Redis answers
        reply = self._client.execute_command(*args)
        return await reply if self._tasks else reply

    async def _seal(self, lease: Holder) -> None:
        """Raise the mark. A new holder does this before its first read."""
        await self._apply(lease, ())

    async def _apply(self, lease: Holder, commands: Sequence[Command]) -> list[Any]:
        """Apply all commands in one step, or raise `StaleToken` and apply none.

        Gives the replies as Redis sends them (`SET` gives b"OK", not True). Raises `ValueError`
        before anything is applied if a command cannot be right, and `PartlyApplied` if one failed
        for a reason that only the data can show (a wrong type, a value that is no number).
        """
        at, mark, show = self._shows(lease)
        words: list[Word] = []
        for command in commands:
            size = len(command)
            if (command[0], size) not in self._fitting:
                await self._check(mark, command)
            words += (size, *command)
        found = await self._keys(mark, commands) if self._cluster else ()
        args = (1 + len(found), mark, *found, show, *words)
        try:
            reply: Any = self._client.execute_command("EVALSHA", _DIGEST, *args)
            if self._tasks:  # here and not in _send: one coroutine less for every write
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
        """Return what a lease shows, the key of its mark, and both as the script wants them.

        Remembered for the last lease: it shows the same at each of its writes.
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
        """Raise if the command cannot be right, as far as its name and its size tell."""
        name = command[0]
        if not isinstance(name, str):
            raise TypeError(f"a command begins with its name, a str, not {name!r}")
        if name not in self._rules:  # asked in a script, since that is sent to the right node
            (info,) = await self._send("EVAL", _INFO, 1, mark, name)
            self._rules[name] = known.rule(info, name)
        known.fits(self._rules[name], command)
        self._fitting.add((name, len(command)))

    async def _keys(self, mark: str, commands: Sequence[Command]) -> list[bytes]:
        """Find the keys of all commands, and raise unless they are in the slot of the mark."""
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
    """Guards keys of a Redis, with redis-py's client for threads; `RedisCluster` too.

    `tag`: the hash tag that the keys share, on a cluster. Without one it is the lock's name: a key
    `{invoice:42}:total` or `invoice:42` is in the slot of the mark of the lock `invoice:42`.

    The mark is as durable as this Redis. A failover to a replica that had not received it, or a
    restart with nothing saved, rewinds it, with the data: after that a stale holder can write once
    more, until the new holder shows its token again.
    """

    _tasks = False

    def __init__(self, client: Redis, *, tag: str | None = None) -> None:
        """Nothing is sent."""
        super().__init__(client, tag)

    seal = blocking(RedisGuardCore._seal)
    apply = blocking(RedisGuardCore._apply)


class AsyncRedisGuard(RedisGuardCore):
    """Guards keys of a Redis, with redis-py's client for asyncio. All else as `RedisGuard`."""

    _tasks = True

    def __init__(self, client: AsyncRedis, *, tag: str | None = None) -> None:
        """Nothing is sent."""
        super().__init__(client, tag)

    seal = RedisGuardCore._seal
    apply = RedisGuardCore._apply
