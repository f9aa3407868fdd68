"""A simulated Redis: the few commands that Redlock's programs need, and these programs, in Lua."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import hiredis
import lupa.lua51 as lua

from tests.robustness.simulation.world import Process, World

EPOCH = 1.7e9  # what the clocks say at the beginning
Word = bytes
Value = Any
"""What Redis stores or answers: bytes, a number, a list, a dictionary, nothing, an error."""


class Node:
    """One server, whose process pauses, restarts and forgets."""

    def __init__(self, world: World, number: int) -> None:
        self.process = Process.new(world, f"node {number}")
        self.world = world
        self.number = number
        self.up = True
        self.life = 0
        """How often it was started: a connection does not outlive it."""
        self.shift = 0.0
        self.push: Callable[[bytes, bytes], object] = _nobody
        """Hands a published message to whoever has subscribed to its channel."""
        self.wipe()

    def wipe(self) -> None:
        """Have nothing stored."""
        self._data: dict[bytes, tuple[Value, float | None]] = {}
        self._scripts: dict[bytes, bytes] = {}

    @property
    def run_id(self) -> bytes:
        """Tell which process of it this is."""
        return b"%040x" % (self.number * 1000 + self.life)

    def stop(self) -> None:
        self.up = False

    def start(self) -> None:
        self.up = True
        self.life += 1
        self._scripts.clear()

    def execute(self, data: bytes) -> list[Value]:
        """Carry commands out, and give the reply to each."""
        reader = hiredis.Reader()
        reader.feed(data)
        replies = []
        while (words := reader.gets()) is not False:
            try:
                replies.append(self._do(*words))
            except lua.LuaError as error:
                replies.append(error)
        return replies

    def _do(self, name: bytes, *args: Word) -> Value:
        found: Value = getattr(self, f"_{name.decode().lower()}")(*args)
        return found

    # --- what clients send --------------------------------------------------------------------

    def _hello(self, *_: Word) -> Value:
        return {b"proto": 3}

    def _ping(self) -> Value:
        return b"PONG"

    def _script(self, _: Word, source: Word) -> Value:
        digest = hashlib.sha1(source, usedforsecurity=False).hexdigest().encode()
        self._scripts[digest] = source
        return digest

    def _evalsha(self, digest: Word, *rest: Word) -> Value:
        if digest not in self._scripts:
            return KeyError("NOSCRIPT No matching script.")
        return self._eval(self._scripts[digest], *rest)

    def _eval(self, source: Word, count: Word, *rest: Word) -> Value:
        keys, args = rest[: int(count)], rest[int(count) :]
        redis = RUNTIME.table_from({b"call": self._call, b"pcall": self._call})
        found = compiled(source)(RUNTIME.table_from(keys), RUNTIME.table_from(args), redis)
        return _from_lua(found)

    def _call(self, name: bytes, *args: Value) -> Value:
        found = self._do(name, *map(_word, args))
        if found is None:
            return False
        return RUNTIME.table_from(found) if isinstance(found, list) else found

    # --- what programs call -------------------------------------------------------------------

    def _now(self) -> float:
        return EPOCH + self.world.now + self.shift

    def _find(self, key: Word, default: Value = None) -> Value:
        value, until = self._data.get(key, (default, None))
        if until is not None and until <= self._now():
            del self._data[key]
            return default
        return value

    def _time(self) -> Value:
        micros = int(self._now() * 1e6)
        return [b"%d" % (micros // 10**6), b"%d" % (micros % 10**6)]

    def _info(self, *_: Word) -> Value:
        return b"run_id:%b\r\n" % self.run_id

    def _get(self, key: Word) -> Value:
        return self._find(key)

    def _mget(self, *keys: Word) -> Value:
        return [self._find(key) or False for key in keys]

    def _set(self, key: Word, value: Word) -> Value:
        self._data[key] = (value, None)
        return b"OK"

    def _psetex(self, key: Word, life: Word, value: Word) -> Value:
        self._data[key] = (value, self._now() + int(life) / 1000)
        return b"OK"

    def _pexpire(self, key: Word, life: Word) -> Value:
        value = self._find(key)
        if value is not None:
            self._data[key] = (value, self._now() + int(life) / 1000)
        return int(value is not None)

    def _pttl(self, key: Word) -> Value:
        value, until = self._find(key), self._data.get(key, (None, None))[1]
        return -2 if value is None else -1 if until is None else int((until - self._now()) * 1000)

    def _setrange(self, key: Word, start: Word, part: Word) -> Value:
        value, until = self._find(key), self._data[key][1]
        at = int(start)
        self._data[key] = (value[:at] + part + value[at + len(part) :], until)
        return len(value)

    def _del(self, *keys: Word) -> Value:
        return sum(self._data.pop(key, None) is not None for key in keys)

    def _exists(self, key: Word) -> Value:
        return int(bool(self._find(key)))

    def _all(self, key: Word) -> dict[bytes, Any]:
        """Give the hash or the sorted set of a key, whose members may be changed."""
        found: dict[bytes, Any] = self._find(key, {})
        if key not in self._data:
            self._data[key] = (found, None)
        return found

    def _hset(self, key: Word, field: Word, value: Word) -> Value:
        self._all(key)[field] = value
        return 1

    def _hget(self, key: Word, field: Word) -> Value:
        return self._all(key).get(field)

    def _hdel(self, key: Word, field: Word) -> Value:
        return int(self._all(key).pop(field, None) is not None)

    def _hlen(self, key: Word) -> Value:
        return len(self._all(key))

    def _zadd(self, key: Word, *pairs: Word) -> Value:
        self._all(key).update(zip(pairs[1::2], map(float, pairs[::2]), strict=True))
        return 1

    def _zrem(self, key: Word, *members: Word) -> Value:
        return sum(self._all(key).pop(member, None) is not None for member in members)

    def _zscore(self, key: Word, member: Word) -> Value:
        score = self._all(key).get(member)
        return None if score is None else b"%.0f" % score

    def _zrangebyscore(self, key: Word, low: Word, high: Word, *options: Word) -> Value:
        scores = sorted((score, member) for member, score in self._all(key).items())
        some = [(s, m) for s, m in scores if _above(s, low) and _above(-s, _negative(high))]
        if b"LIMIT" in options:
            some = some[: int(options[options.index(b"LIMIT") + 2])]
        if b"WITHSCORES" in options:
            return [word for score, member in some for word in (member, b"%.0f" % score)]
        return [member for _, member in some]

    def _publish(self, channel: Word, message: Word) -> Value:
        self.push(channel, message)
        return 1


def encoded(value: Value) -> bytes:
    """Write a reply as RESP 3 has it."""
    if value is None or value is False:
        return b"_\r\n"
    if isinstance(value, Exception):
        return b"-%b\r\n" % str(value.args[0]).replace("\n", " ").encode()
    if isinstance(value, bytes):
        return b"$%d\r\n%b\r\n" % (len(value), value)
    if isinstance(value, dict):
        return b"%%%d\r\n" % len(value) + b"".join(encoded(x) for kv in value.items() for x in kv)
    if isinstance(value, list):
        return b"*%d\r\n" % len(value) + b"".join(map(encoded, value))
    return b":%d\r\n" % value


def _above(score: float, bound: bytes) -> bool:
    strict = bound.startswith(b"(")
    limit = float(bound[1:] if strict else bound)
    return score > limit if strict else score >= limit


def _negative(bound: bytes) -> bytes:
    strict = bound[:1] if bound.startswith(b"(") else b""
    return strict + b"%.0f" % -float(bound[1:]) if strict else b"%f" % -float(bound)


def _word(value: Any) -> bytes:  # noqa: ANN401  # whatever a program wrote
    if isinstance(value, bytes):
        return value
    return b"%.0f" % value if value == int(value) else b"%.17g" % value


def _from_lua(value: Any) -> Value:  # noqa: ANN401  # whatever a program returns
    if isinstance(value, (bytes, type(None))):
        return value
    if isinstance(value, (bool, int, float)):
        return (1 if value else None) if isinstance(value, bool) else int(value)
    return [_from_lua(value[i]) for i in range(1, len(value) + 1)]


def _nobody(channel: bytes, message: bytes) -> None:
    """Nobody has subscribed."""


RUNTIME = lua.LuaRuntime(encoding=None)


@lru_cache
def compiled(source: bytes) -> Callable[..., Any]:
    program: Callable[..., Any] = RUNTIME.eval(b"function(KEYS, ARGV, redis)\n" + source + b"\nend")
    return program
