"""URLs: where an engine is. Parsed here, once, for every scheme."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlsplit


@dataclass(frozen=True, slots=True)
class Target:
    """A parsed URL. `repr` shows no password."""

    scheme: str
    hosts: tuple[tuple[str, int | None], ...]
    username: str | None
    password: str | None = field(repr=False)
    path: str
    options: dict[str, str] = field(default_factory=dict)

    def take(self, *known: str) -> dict[str, str]:
        """Give the options, or name the ones that this engine does not know: a misspelt option
        that is ignored is a promise that is not kept.
        """
        unknown = sorted(set(self.options) - set(known))
        if unknown:
            said = ", ".join(unknown)
            raise ValueError(f"{self.scheme}:// does not know {said}; it knows {', '.join(known)}")
        return self.options


def parse(url: str | None) -> Target:
    """Parse a URL, or the one in LOCKFAST_URL; with several hosts, separated by commas."""
    url = url if url is not None else os.environ.get("LOCKFAST_URL")
    if not url:
        raise ValueError("no URL: pass one to connect(), or set LOCKFAST_URL")
    if "://" not in url:
        raise ValueError(f"not a URL: {url!r}. An example: redis://localhost:6379/0")
    parts = urlsplit(url)
    credentials, _, hosts = parts.netloc.rpartition("@")
    username, colon, password = credentials.partition(":")
    return Target(
        scheme=parts.scheme,
        hosts=tuple(_host(each) for each in hosts.split(",") if each),
        username=unquote(username) or None,
        password=unquote(password) if colon else None,
        path=unquote(parts.path),
        options=dict(parse_qsl(parts.query, keep_blank_values=True)),
    )


def _host(text: str) -> tuple[str, int | None]:
    if text.startswith("["):  # an IPv6 address
        host, _, rest = text[1:].partition("]")
        port = rest.removeprefix(":")
    else:
        host, _, port = text.partition(":")
    if port and not port.isdigit():
        raise ValueError(f"not a port: {port!r} in {text!r}")
    return unquote(host), int(port) if port else None
