"""Parsing of engine URLs, for every scheme.

A URL can contain a password, so no error message here quotes any part of one: if a character of
the password is not percent-encoded, parts of the password can end up anywhere in the parsed URL.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from lockfast.errors import EngineUnavailable

SECURE = {
    "redis": "rediss",
    "valkey": "valkeys",
    "redlock": "redlocks",
    "etcd": "etcds",
    "lockfast": "lockfasts",
}
"""Schemes that do not encrypt, each with its encrypted counterpart."""
FILES = frozenset({"sqlite"})
"""Schemes whose URLs name a file. Their engine explains what is wrong with a host. It must not be
read as a host and a port before: sqlite://:memory: would say that memory is not a port."""
LONGEST = 65_536  # bytes that are read of a file with a URL or a password
HIGHEST_PORT = 65_535
_OPTION = re.compile("[a-z0-9_]{1,40}")
ENCODE = "If there are / ? # [ ] @ : % in the password, percent-encode them: %2F for /"

Secret = Callable[[], str | None]
"""Returns the password. Raises `EngineUnavailable` if the password file cannot be read."""


@dataclass(frozen=True, slots=True)
class Target:
    """A parsed URL. `repr` hides the password, and the options, since some of them are secret."""

    scheme: str
    hosts: tuple[tuple[str, int | None], ...]
    username: str | None
    password: str | None = field(repr=False)
    path: str
    options: dict[str, str] = field(default_factory=dict, repr=False)

    def take(self, *known: str) -> dict[str, str]:
        """Return the options. Raise `ValueError` if one of them is not in `known`.

        A misspelt option must not be ignored, because the user relies on what it asks for. Options
        for TLS are refused with a scheme that does not encrypt, for the same reason.
        """
        unknown = sorted(set(self.options) - set(known))
        if unknown:
            # If there is an @ behind the ?, the password was not percent-encoded, and these names
            # may be parts of it, as in redis://user:12?ss&word@host. Then the error shows none.
            secret = any("@" in text for option in self.options.items() for text in option)
            shown = [key if _OPTION.fullmatch(key) and not secret else "?" for key in unknown]
            said = ", ".join(shown)
            has = f"Its options are {', '.join(known)}" if known else "It has no options"
            raise ValueError(f"{self.scheme}:// has no option {said}. {has}")
        idle = sorted(name for name in self.options if name.startswith("ssl_"))
        if idle and self.secure:
            raise ValueError(
                f"{self.scheme}:// does not encrypt, so {', '.join(idle)} would have no effect: "
                f"write {self.secure}://, or remove the option"
            )
        return self.options

    def secret(self) -> Secret:
        """Return a function that returns the password, to be called for every login.

        With `password_file` it reads the file each time, because the password may be changed while
        the process runs.
        """
        path = self.options.get("password_file")
        if path is None:
            return lambda: self.password
        if self.password is not None:
            raise ValueError("the URL has a password and a password_file: remove one of them")
        _read(path, "password_file")
        return lambda: _password(path)

    @property
    def secure(self) -> str:
        """The encrypted scheme to use instead, or "" if this scheme already encrypts."""
        base, plus, kind = self.scheme.partition("+")
        return f"{SECURE[base]}{plus}{kind}" if base in SECURE else ""


def parse(url: str | None) -> Target:
    """Parse a URL. None stands for the URL that LOCKFAST_URL or LOCKFAST_URL_FILE gives.

    Several hosts are separated by commas. Raises `ValueError` if it is not a URL of an engine.
    """
    url = url if url is not None else _from_environment()
    if url is None or url == "":
        raise ValueError("no URL: pass one to connect(), or set LOCKFAST_URL or LOCKFAST_URL_FILE")
    if not isinstance(url, str):
        raise TypeError(f"url must be a str, such as redis://localhost:6379/0, not {url!r}")
    if "://" not in url:
        raise ValueError(
            "this is not a URL, because it has no ://. Examples: redis://localhost:6379/0, "
            "sqlite:///locks.db"
        )
    parts = _split(url)
    credentials, _, hosts = parts.netloc.rpartition("@")
    username, colon, password = credentials.partition(":")
    return Target(
        scheme=parts.scheme,
        hosts=_hosts(parts.scheme, hosts),
        username=unquote(username) or None,
        password=unquote(password) if colon else None,
        path=unquote(parts.path),
        options=dict(parse_qsl(parts.query, keep_blank_values=True)),
    )


def from_file(path: str) -> str:
    """Return the URL in a file, such as a mounted secret. `ps` shows arguments, but not files."""
    return _read(path, "the file with the URL").strip()


def _password(path: str) -> str:
    """Return the password in a file. Raise `EngineUnavailable` if the file cannot be read, or is
    empty.

    This error is retried, since a file that is being replaced may be missing for a moment, or have
    no contents yet.
    """
    try:
        password = _read(path, "password_file").rstrip("\r\n")
    except ValueError as error:
        raise EngineUnavailable(str(error), sent=False) from None
    if not password:
        raise EngineUnavailable(f"password_file, {path!r}, is empty", sent=False)
    return password


def _read(path: str, what: str) -> str:
    try:
        with Path(path).open(encoding="utf-8") as stream:
            return stream.read(LONGEST)
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(unreadable(what, path, error)) from None


def unreadable(what: str, path: str, error: OSError | UnicodeDecodeError) -> str:
    """Return the error message for a file that cannot be read."""
    why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
    return f"{what}, {path!r}, cannot be read: {why}"


def _from_environment() -> str | None:
    url, path = os.environ.get("LOCKFAST_URL"), os.environ.get("LOCKFAST_URL_FILE")
    return url or (from_file(path) if path else None)


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
    except ValueError:  # not chained: its message quotes a part of the URL
        raise ValueError(f"this is not a URL: its hosts cannot be read. {ENCODE}") from None
    if parts.fragment or "@" in parts.path:
        raise ValueError(
            f"this is not the URL of an engine: it has a #, or an @ after the hosts. {ENCODE}"
        )
    return parts


def _hosts(scheme: str, text: str) -> tuple[tuple[str, int | None], ...]:
    if scheme in FILES:
        return ((unquote(text), None),) if text else ()
    return tuple(_host(each) for each in text.split(",") if each)


def _host(text: str) -> tuple[str, int | None]:
    if text.startswith("["):  # an IPv6 address
        host, _, rest = text[1:].partition("]")
        port = rest.removeprefix(":")
    else:
        host, _, port = text.partition(":")
    if port and not re.fullmatch("[0-9]{1,5}", port):
        raise ValueError(f"the port after the : of a host is not a number. {ENCODE}")
    if port and not 1 <= int(port) <= HIGHEST_PORT:
        raise ValueError(f"the port after the : of a host is not 1 to 65535. {ENCODE}")
    return unquote(host), int(port) if port else None
