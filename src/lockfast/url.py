"""URLs: where an engine is. Parsed here, once, for every scheme.

A URL holds a password, so no message here quotes one, not even a part: whoever forgets to encode a
character of a password has it anywhere in the URL.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from lockfast.errors import EngineUnavailable

SECURE = {"redis": "rediss", "valkey": "valkeys", "redlock": "redlocks", "etcd": "etcds"}
"""Schemes that do not encrypt, each with the one that does."""
LONGEST = 65_536  # bytes that are read of a file with a URL or a password
HIGHEST_PORT = 65_535
_OPTION = re.compile("[a-z0-9_]{1,40}")
ENCODE = "If there are / ? # [ ] @ : % in the password, percent-encode them: %2F for /"

Secret = Callable[[], str | None]
"""Tells the password; raises `EngineUnavailable` if its file cannot be read."""


@dataclass(frozen=True, slots=True)
class Target:
    """A parsed URL. `repr` shows no password, and no option: some are passwords too."""

    scheme: str
    hosts: tuple[tuple[str, int | None], ...]
    username: str | None
    password: str | None = field(repr=False)
    path: str
    options: dict[str, str] = field(default_factory=dict, repr=False)

    def take(self, *known: str) -> dict[str, str]:
        """Return the options, or name the ones that this engine does not know: a misspelt option
        that is ignored is a promise that is not kept.
        """
        unknown = sorted(set(self.options) - set(known))
        if unknown:
            # With an @ behind the ?, what looks like options may be a password: 12?ss&word@host
            secret = any("@" in text for option in self.options.items() for text in option)
            shown = [key if _OPTION.fullmatch(key) and not secret else "?" for key in unknown]
            said = ", ".join(shown)
            raise ValueError(f"{self.scheme}:// does not know {said}; it knows {', '.join(known)}")
        idle = sorted(name for name in self.options if name.startswith("ssl_"))
        if idle and self.secure:
            raise ValueError(
                f"{self.scheme}:// does not encrypt, so {', '.join(idle)} would have no effect: "
                f"write {self.secure}://, or leave it out"
            )
        return self.options

    def secret(self) -> Secret:
        """Return what tells the password, for every login anew: it may change while we run."""
        path = self.options.get("password_file")
        if path is None:
            return lambda: self.password
        if self.password is not None:
            raise ValueError("the URL has a password and a password_file: leave one of them out")
        _read(path, "password_file")
        return lambda: _password(path)

    @property
    def secure(self) -> str:
        """The scheme to write instead, if this one does not encrypt; else nothing."""
        base, plus, kind = self.scheme.partition("+")
        return f"{SECURE[base]}{plus}{kind}" if base in SECURE else ""


def parse(url: str | None) -> Target:
    """Parse a URL, or that of the environment; with several hosts, separated by commas."""
    url = url if url is not None else _from_environment()
    if not isinstance(url, str):
        raise TypeError(f"url is a str, such as redis://localhost:6379/0, not {url!r}")
    if not url:
        raise ValueError("no URL: pass one to connect(), or set LOCKFAST_URL or LOCKFAST_URL_FILE")
    if "://" not in url:
        raise ValueError("that is not a URL: it has no ://. An example: redis://localhost:6379/0")
    parts = _split(url)
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


def from_file(path: str) -> str:
    """Read a URL from a file, such as a mounted secret: unlike an argument, `ps` shows no file."""
    return _read(path, "the file with the URL").strip()


def _password(path: str) -> str:
    """Read a password. A file that is being replaced may be missing for a moment."""
    try:
        return _read(path, "password_file").rstrip("\r\n")
    except ValueError as error:
        raise EngineUnavailable(str(error), sent=False) from None


def _read(path: str, what: str) -> str:
    try:
        with Path(path).open(encoding="utf-8") as stream:
            return stream.read(LONGEST)
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(unreadable(what, path, error)) from None


def unreadable(what: str, path: str, error: OSError | UnicodeDecodeError) -> str:
    """Say which file cannot be read, and why."""
    why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
    return f"{what}, {path!r}, cannot be read: {why}"


def _from_environment() -> str | None:
    url, path = os.environ.get("LOCKFAST_URL"), os.environ.get("LOCKFAST_URL_FILE")
    return url or (from_file(path) if path else None)


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
    except ValueError:  # its message quotes what it did not understand
        raise ValueError(f"that is not a URL: its hosts cannot be read. {ENCODE}") from None
    if parts.fragment or "@" in parts.path:
        raise ValueError(
            f"that is not a URL of an engine: it has a #, or an @ behind the hosts. {ENCODE}"
        )
    return parts


def _host(text: str) -> tuple[str, int | None]:
    if text.startswith("["):  # an IPv6 address
        host, _, rest = text[1:].partition("]")
        port = rest.removeprefix(":")
    else:
        host, _, port = text.partition(":")
    if port and not re.fullmatch("[0-9]{1,5}", port):
        raise ValueError(f"not a port: what follows the : of a host is no number. {ENCODE}")
    if port and not 1 <= int(port) <= HIGHEST_PORT:
        raise ValueError(f"not a port: what follows the : of a host is not 1 to 65535. {ENCODE}")
    return unquote(host), int(port) if port else None
