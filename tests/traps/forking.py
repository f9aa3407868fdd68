"""A process that holds a lock and forks: what the child does must not touch the parent's lease.

`python -m tests.traps.forking URL NAME TTL HOW [--aio]`: the child goes as HOW says; when it has
gone, the parent waits for more than a ttl, and writes the state of its lease.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import select
import sys
import time

import lockfast
from lockfast import aio

WAYS = ["collect", "exit", "release", "close", "leave"]


def in_threads(url: str, name: str, ttl: float, how: str) -> None:
    """Fork with the blocking client."""
    client = lockfast.connect(url)
    with client.lock(name, ttl=ttl) as lease:
        child = os.fork()
        if not child:
            if how == "collect":
                del lease, client
                gc.collect()
                os._exit(0)
            if how == "exit":
                sys.exit(0)
            if how == "release":
                lease.release()
            if how == "close":
                client.close()
            if how != "leave":
                os._exit(0)
        else:
            code = os.waitpid(child, 0)[1]
            time.sleep(ttl * 1.2)
            sys.stdout.write(f"{lease.state.name} {code}\n")
            sys.stdout.flush()
            sys.stdin.readline()  # the test looks at the lock now
    client.close()


async def in_loop(url: str, name: str, ttl: float, how: str) -> None:
    """Fork with the asyncio client."""
    client = aio.connect(url)
    async with client.lock(name, ttl=ttl) as lease:
        child = os.fork()
        if not child:
            if how == "collect":
                del lease, client
                gc.collect()
                os._exit(0)
            if how == "exit":
                sys.exit(0)
            if how == "release":
                await lease.release()
            if how == "close":
                await client.close()
            if how != "leave":
                os._exit(0)
        else:
            pid = 0
            while not pid:
                pid, code = os.waitpid(child, os.WNOHANG)  # noqa: ASYNC222  # it does not wait
                await asyncio.sleep(0.01)
            await asyncio.sleep(ttl * 1.2)
            sys.stdout.write(f"{lease.state.name} {code}\n")
            sys.stdout.flush()
            # Not by a thread: the child has closed the loop's way to hear of it, which they share.
            while not select.select([sys.stdin], [], [], 0)[0]:  # noqa: ASYNC110  # see above
                await asyncio.sleep(0.01)
    await client.close()


def main() -> None:
    """Read the arguments, hold, and fork."""
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("name")
    parser.add_argument("ttl", type=float)
    parser.add_argument("how", choices=WAYS)
    parser.add_argument("--aio", action="store_true")
    said = parser.parse_args()
    if said.aio:
        asyncio.run(in_loop(said.url, said.name, said.ttl, said.how))
    else:
        in_threads(said.url, said.name, said.ttl, said.how)


if __name__ == "__main__":
    main()
