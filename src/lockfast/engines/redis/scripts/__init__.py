"""The Lua scripts that run inside Redis, read from the `.lua` files in this folder."""

from __future__ import annotations

import hashlib
import re
from importlib.resources import files


class Script:
    """One script. Calls name its digest, or carry its source for a server that lacks it."""

    def __init__(self, name: str, package: str = __name__) -> None:
        """Read `name`.lua of a package, and insert the files that it includes."""
        folder = files(package)

        def read(file: str) -> str:
            text = (folder / file).read_text("utf-8")
            return re.sub(r"--#include (\w+\.lua)\n", lambda found: read(found[1]), text)

        source = read(f"{name}.lua")
        self.name = name
        self.source = source.encode()
        self.sha = hashlib.sha1(self.source, usedforsecurity=False).hexdigest()
        self._short = b"$7\r\nEVALSHA\r\n$40\r\n%b\r\n" % self.sha.encode()
        self._long = b"$4\r\nEVAL\r\n$%d\r\n%b\r\n" % (len(self.source), self.source)

    def packet(self, count: int, rest: bytes) -> bytes:
        """Pack a call by digest. `rest` is `count` packed arguments, or the first part of them."""
        return b"*%d\r\n%b%b" % (count + 2, self._short, rest)

    def whole(self, packet: bytes) -> bytes:
        """Return a packed call with the script's source in place of its digest."""
        return packet.replace(self._short, self._long, 1)


CLAIM = Script("claim")
CLAIMS = Script("claims")
RENEW = Script("renew")
RESIGN = Script("resign")
RESIGNS = Script("resigns")
ATTACH = Script("attach")
DEPART = Script("depart")
INSPECT = Script("inspect")
RECORD = Script("record")
