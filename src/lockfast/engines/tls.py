"""TLS contexts from the files in a URL's options. Each engine uses its driver's option names."""

from __future__ import annotations

import errno
import logging
import os
import ssl
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from lockfast.url import unreadable

log = logging.getLogger("lockfast")

T = TypeVar("T")
Stamp = tuple[int, int, int] | None
"""The time of the last write, size and inode of a file. None: there is no file."""


class Tls(Generic[T]):
    """An object made from TLS files, such as an SSLContext. It is made again when a file changes.

    cert-manager and Vault renew a client's certificate every few hours, and a program that holds
    locks must not need a restart for that.
    """

    def __init__(
        self, options: Mapping[str, str], names: Sequence[str], make: Callable[[], T]
    ) -> None:
        """Make the object now. `names` are the options that name files. `make` raises ValueError
        if it cannot use one of them.
        """
        self._paths = [options[name] for name in names if name in options]
        self._make = make
        # One tuple, because threads connect at the same time: the files as they were before they
        # were read, and what was made of them. A change during the reading is seen the next time.
        self._last = (self._stamps(), make())
        self._warned = False

    def current(self) -> T:
        """Return the object for a new connection. It never raises: while the files cannot be used,
        for example after a certificate was replaced and before its key is, it returns the last
        good object.
        """
        stamps, (before, made) = self._stamps(), self._last
        if stamps == before:
            self._warned = False
            return made
        try:
            made = self._make()
        except ValueError as error:
            if not self._warned:
                self._warned = True
                log.warning(
                    "the new TLS files cannot be used, so connections use the previous ones: %s",
                    error,
                )
        else:
            self._last, self._warned = (stamps, made), False
        return made

    def _stamps(self) -> list[Stamp]:
        return [_stamp(path) for path in self._paths]


def _stamp(path: str) -> Stamp:
    try:
        found = os.stat(path)  # noqa: PTH116  # as ssl takes it
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def tls_context(
    options: Mapping[str, str], authority: str, certificate: str, key: str, password: str | None
) -> ssl.SSLContext:
    """Return a context that verifies the server, with a client certificate if the URL has one.

    `authority`, `certificate` and `key` are the names of options whose values are file paths.
    `password` is the password of the key. If it is None, OpenSSL gets an empty one, because it
    would otherwise ask for it at the terminal, and wait.
    """
    try:
        context = ssl.create_default_context(cafile=options.get(authority))
    except OSError as error:
        raise _unusable(error, options, authority) from None
    if certificate in options:
        try:
            context.load_cert_chain(options[certificate], options.get(key), password or "")
        except OSError as error:
            raise _unusable(error, options, certificate, key) from None
    return context


def _obstacle(path: str) -> int:
    """Return why a file cannot be read, as a number of `errno`; 0 if it can."""
    if not os.access(path, os.R_OK):
        return errno.EACCES if os.path.exists(path) else errno.ENOENT  # noqa: PTH110  # as ssl takes it
    return errno.EISDIR if os.path.isdir(path) else 0  # noqa: PTH112  # as ssl takes it


def _unusable(error: OSError, options: Mapping[str, str], *names: str) -> ValueError:
    """Return an error that names the file that TLS cannot use, because OpenSSL does not name it."""
    named = [name for name in names if name in options]
    for name in named:
        code = _obstacle(options[name])
        if code:
            return ValueError(unreadable(name, options[name], OSError(code, os.strerror(code))))
    if not named:  # the system's own certificates, or the file of SSLKEYLOGFILE
        return ValueError(f"TLS cannot be used: {error}")
    if not isinstance(error, ssl.SSLError):
        return ValueError(unreadable(named[0], options[named[0]], error))
    files = " and ".join(f"{name}, {options[name]!r}," for name in named)
    wanted = "a certificate" if len(names) == 1 else "a certificate and its own key"
    why = f" ({error.reason})" if error.reason else ""
    return ValueError(f"{files} cannot be used{why}: put {wanted} in PEM format there")
