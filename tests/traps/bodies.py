"""A program of many tasks that each hold a lock, for Ctrl-C: `python -m tests.traps.bodies URL N`.

Each body says `held NAME` when it begins, and `left NAME` when its lock has been given back.
"""

from __future__ import annotations

import asyncio
import sys

from lockfast import aio


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def body(client: aio.AsyncClient, name: str) -> None:
    """Hold a lock until somebody ends this."""
    try:
        async with client.lock(name, ttl=30):
            _say(f"held {name}")
            await asyncio.Event().wait()
    finally:
        _say(f"left {name}")


async def main(url: str, count: int) -> None:
    """Run the bodies, in one client."""
    async with aio.connect(url) as client, asyncio.TaskGroup() as tasks:
        for number in range(count):
            tasks.create_task(body(client, f"body:{number}"))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
