"""The stylesheet and the script. Their addresses change with their content."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import NamedTuple

from lockfast.web.answer import Answer, said

KINDS = {
    "lockfast.css": "text/css; charset=utf-8",
    "lockfast.js": "text/javascript; charset=utf-8",
    "lockfast.svg": "image/svg+xml",
}
FOR_EVER = "public, max-age=31536000, immutable"


class File(NamedTuple):
    """A file that browsers may keep."""

    content: bytes
    version: str


@cache
def file(name: str) -> File:
    """Return a file of `KINDS`."""
    content = (files("lockfast.web") / "static" / name).read_bytes()
    return File(content, sha256(content).hexdigest()[:16])


def static(name: str, version: str | None) -> Answer:
    """Return the answer to a request for a file."""
    if name not in KINDS:
        return said(404, "there is no such file")
    found = file(name)
    kept = FOR_EVER if version == found.version else "no-cache"
    return Answer(found.content, kind=KINDS[name], cache=kept)
