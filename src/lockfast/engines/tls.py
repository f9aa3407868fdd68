"""TLS contexts from the files in a URL's options. Each engine uses its driver's option names."""

from __future__ import annotations

import errno
import os
import ssl
from collections.abc import Mapping

from lockfast.url import unreadable


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


def _unusable(error: OSError, options: Mapping[str, str], *names: str) -> ValueError:
    """Return an error that names the file that TLS cannot use, because OpenSSL does not name it."""
    named = [name for name in names if name in options]
    for name in named:
        if not os.access(options[name], os.R_OK):
            code = errno.EACCES if os.path.exists(options[name]) else errno.ENOENT  # noqa: PTH110  # as ssl takes it
            return ValueError(unreadable(name, options[name], OSError(code, os.strerror(code))))
    if not isinstance(error, ssl.SSLError):
        return ValueError(unreadable(named[0], options[named[0]], error))
    files = " and ".join(f"{name}, {options[name]!r}," for name in named)
    wanted = "a certificate" if len(names) == 1 else "a certificate and its own key"
    return ValueError(f"{files} cannot be used: put {wanted} in PEM format there")
