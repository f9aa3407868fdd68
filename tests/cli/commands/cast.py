"""The cast of a picture: a program on a machine that is only called so.

`python -m tests.cli.commands.cast URL HOST SERVICE HELD [WANTED]` holds a lock, and waits for
another.
"""

from __future__ import annotations

import socket
import sys

import lockfast

PURPOSES = {
    "invoice:42": "nightly run",
    "stock:7": "refill",
    "report": "totals of May",
    "catalogue": "",
}


def main(url: str, host: str, service: str, held: str, wanted: str = "") -> None:
    socket.gethostname = lambda: host  # what the claims will say
    sys.argv[0] = service
    with lockfast.connect(url) as client:
        leases = []
        if held:
            made = client.rwlock(held).read() if held == "catalogue" else None
            lock = made or client.lock(held, ttl=30, purpose=PURPOSES[held])
            leases.append(lock.acquire())
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        if wanted:
            leases.append(client.lock(wanted, ttl=30, timeout=300, purpose="next").acquire())
        sys.stdin.read()  # until the picture is taken


if __name__ == "__main__":
    main(*sys.argv[1:])
