"""The Lua scripts that run inside each node, read from the `.lua` files in this folder."""

from __future__ import annotations

from lockfast.engines.redis.scripts import Script

CLAIM = Script("claim", __name__)
RENEW = Script("renew", __name__)
RESIGN = Script("resign", __name__)
INSPECT = Script("inspect", __name__)
ENTER = Script("enter", __name__)
JOIN = Script("join", __name__)
MARKS = Script("marks", __name__)
INSTALL = Script("install", __name__)
