"""Sockets for engines that speak their protocol themselves: connecting, and TCP keepalive."""

from __future__ import annotations

import encodings.idna  # noqa: F401  # Ctrl-C while getaddrinfo imports it would break it
import os
import socket
from contextlib import suppress
from typing import Protocol

from lockfast.errors import quoted
from lockfast.runtime.base import Clock

KEEPALIVE = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
"""Seconds, seconds and a count. These probes keep a NAT from dropping an idle connection."""
LEAST = 0.01  # seconds that an attempt to connect has, whatever its deadline


class Sock(Protocol):
    """The part of a socket that `keep_alive` uses. uvloop passes an object of its own class."""

    def setsockopt(self, level: int, optname: int, value: int, /) -> None:
        """Set a socket option."""


def keep_alive(sock: Sock) -> None:
    """Turn on TCP keepalive: the kernel sends probes on an idle connection and detects its end."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE.items():
        option = getattr(socket, name, None)  # some systems lack it
        if option is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)


def dial(host: str, port: int, deadline: float, clock: Clock) -> socket.socket:
    """Connect to the first address of a host that answers. Each gets a share of the time."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    why: OSError = OSError(f"{host} has no address")
    for number, (family, kind, protocol, _, where) in enumerate(found):
        sock = socket.socket(family, kind, protocol)
        try:
            left = max(deadline - clock(), LEAST)
            sock.settimeout(left / (len(found) - number))
            sock.connect(where)
            sock.settimeout(max(deadline - clock(), LEAST))  # for the TLS handshake
        except OSError as error:
            sock.close()
            why = error
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise why


def give_up(fd: int) -> None:
    """Leave a socket to the parent, in a forked child: the copy would keep the connection open when
    the parent has ended. The number stays in use, because finalizers may still close it.
    """
    with suppress(OSError):  # closed already, or no more files can be opened
        null = os.open(os.devnull, os.O_RDWR)
        try:
            os.dup2(null, fd, inheritable=False)
        finally:
            os.close(null)


def reason(error: BaseException) -> str:
    """Return an error's message, or the name of its type if it has none, like a timeout."""
    return quoted(error) or type(error).__name__
