"""The programs that run inside Redis, read from the `.lua` files beside this one."""

from __future__ import annotations

import hashlib
from importlib.resources import files


class Script:
    """One program, packed for the wire: by digest, or whole for a server that has not seen it."""

    def __init__(self, name: str) -> None:
        """Read `name`.lua, with what it includes."""
        folder = files(__name__)
        source = (folder / f"{name}.lua").read_text("utf-8")
        include = "--#include queue.lua\n"
        if include in source:
            source = source.replace(include, (folder / "queue.lua").read_text("utf-8"))
        self.name = name
        self.source = source.encode()
        self.sha = hashlib.sha1(self.source, usedforsecurity=False).hexdigest()
        self._heads: dict[tuple[int, bool], bytes] = {}

    def packet(self, rest: bytes, count: int, *, whole: bool = False) -> bytes:
        """Put the command in front of `rest`, which is `count` packed arguments."""
        head = self._heads.get((count, whole))
        if head is None:
            name, program = (b"EVAL", self.source) if whole else (b"EVALSHA", self.sha.encode())
            head = b"*%d\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n" % (
                count + 2,
                len(name),
                name,
                len(program),
                program,
            )
            self._heads[count, whole] = head
        return head + rest


CLAIM = Script("claim")
RENEW = Script("renew")
RESIGN = Script("resign")
INSPECT = Script("inspect")
