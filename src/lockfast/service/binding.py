"""The sockets on which a replica listens."""

from __future__ import annotations

import errno
import os
import socket
import stat
from contextlib import ExitStack, suppress
from typing import Any

from lockfast.loopback import is_loopback
from lockfast.service.config import Config

BACKLOG = 1_024  # connections that the system keeps until they are accepted
Address = tuple[socket.AddressFamily, tuple[Any, ...]]


def addresses(host: str, port: int) -> list[Address]:
    """Return the addresses of a host. Raise `ValueError` if it has none."""
    if not host:  # it would mean all addresses
        raise ValueError("the address to listen on is empty: write 127.0.0.1, or 0.0.0.0 for all")
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise ValueError(f"{host!r} is no address of this machine: {why}") from None
    return [(family, where) for family, _, _, _, where in found]


def is_private(host: str, port: int) -> bool:
    """Return whether only programs on this machine can connect. Raise as `addresses` does."""
    return all(is_loopback(where[0]) for _, where in addresses(host, port))


def listen(config: Config) -> list[socket.socket]:
    """Return the sockets of a configuration. Raise `ValueError` if they cannot be opened."""
    if config.uds is None:
        return bind(config.host, config.port)
    return [bind_unix(config.uds, int(config.uds_mode, 8))]


def forget(config: Config) -> None:
    """Remove the unix socket of a replica that ends."""
    if config.uds is not None:
        with suppress(OSError):
            os.unlink(config.uds)  # noqa: PTH108  # as bytes of the system


def bind_unix(path: str, mode: int) -> socket.socket:
    """Return a unix socket that listens. One that nobody listens on any more is replaced."""
    sock = socket.socket(socket.AF_UNIX)
    try:
        if _is_left(path):
            os.unlink(path)  # noqa: PTH108
        # Not for a moment may another user connect.
        before = os.umask(0o177)
        try:
            sock.bind(path)
        finally:
            os.umask(before)
        os.chmod(path, mode)  # noqa: PTH101
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        why = os.strerror(error.errno or 0)
        raise ValueError(f"the unix socket {path!r} cannot be used: {why}") from None
    return sock


def _is_left(path: str) -> bool:
    """Return whether there is a socket that nobody listens on."""
    try:
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            return False
    except FileNotFoundError:
        return False
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(1.0)
        try:
            sock.connect(path)
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
    return False


def bind(host: str, port: int) -> list[socket.socket]:
    """Return sockets that listen at all addresses of a host. Raise `ValueError` if that fails."""
    with ExitStack() as opened:
        sockets: list[socket.socket] = []
        missing: OSError | None = None
        for family, (name, number, *more) in addresses(host, port):
            at = number or (sockets[0].getsockname()[1] if sockets else 0)
            try:
                # Without IPv4 in IPv6: its addresses would need other rules.
                sock = socket.create_server((name, at, *more), family=family, backlog=BACKLOG)
            except OSError as error:
                # `localhost` is often ::1 too, on machines without IPv6.
                if error.errno not in {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}:
                    raise _unusable(host, port, error) from None
                missing = error
            else:
                sockets.append(opened.enter_context(sock))
        if missing is not None and not sockets:
            raise _unusable(host, port, missing)
        opened.pop_all()
        return sockets


def _unusable(host: str, port: int, error: OSError) -> ValueError:
    why = os.strerror(error.errno or 0)  # the error's own text repeats the address
    return ValueError(f"port {port} of {host} cannot be used: {why}")
