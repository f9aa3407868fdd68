"""What a lockfast client says to Redis, overheard once, so that raw contenders say the same."""

from __future__ import annotations

from dataclasses import dataclass

import lockfast
from tests.servers import Proxy, Redis
from tests.servers.resp import pack

NAME = "overheard"
FAR = 2**52  # ms by the server's clock: no claim of a benchmark is ever too late
NOT_AFTER = 2  # its place among the arguments of claim.lua, behind id and ttl


@dataclass(frozen=True, slots=True)
class Script:
    """One EVALSHA of a free lock named NAME: its digest, its keys, its arguments."""

    digest: str
    keys: list[str]
    args: list[str]

    def packed(self) -> bytes:
        """Write it as the server reads it."""
        return pack(*self.words())

    def words(self) -> list[str]:
        """Write it as redis-benchmark reads it."""
        return ["EVALSHA", self.digest, str(len(self.keys)), *self.keys, *self.args]

    def altered(self, change: dict[str, str]) -> Script:
        """Say the same of another name or id."""

        def swap(word: str) -> str:
            for old, new in change.items():
                word = word.replace(old, new)
            return word

        return Script(self.digest, [swap(k) for k in self.keys], [swap(a) for a in self.args])

    @property
    def ident(self) -> str:
        """The claim's id."""
        return self.args[0]


def overhear(server: Redis, ttl: float) -> tuple[Script, Script]:
    """Listen to one acquisition and its release. The server knows both scripts afterwards."""
    with Proxy(server.host, server.port, record=True) as proxy:
        with lockfast.connect(f"redis://{proxy.address}") as client:
            lock = client.lock(NAME, ttl=ttl)
            for _ in range(2):  # the first time the scripts are sent whole
                lock.acquire().release()
        calls = [words for raw in proxy.requests if (words := _words(raw))[0] == "EVALSHA"]
    claim, resign = (_script(words) for words in calls[-2:])
    assert (len(claim.keys), claim.ident) == (5, resign.ident), "not a claim and its resignation"
    claim.args[NOT_AFTER] = str(FAR)
    return claim, resign


def _words(raw: bytes) -> list[str]:
    """Read one packed command: every second line is an argument, none of ours has a line end."""
    return [line.decode() for line in raw.split(b"\r\n")[2::2]]


def _script(words: list[str]) -> Script:
    count = int(words[2])
    return Script(words[1], words[3 : 3 + count], words[3 + count :])
