"""A Redis that loads its data: it subscribes a client, and answers LOADING to all else."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from lockfast.errors import EngineUnavailable
from lockfast.testing import MODES, Stage
from lockfast.testing.harness.verbs import acquire, release
from tests.contract.benches import RedisBench
from tests.servers import Redis
from tests.servers.process import wait_until
from tests.servers.resp import ReplyError

FILL = "for i = 1, 700 do redis.call('SET', 'k' .. i, 'a value of some length') end"
SLOWLY = {
    "key-load-delay": "1000",  # microseconds for each key
    "loading-process-events-interval-bytes": "1024",  # between two looks at the clients
}


def _loading(server: Redis) -> bool:
    try:
        server.command("PING")
    except ReplyError as error:
        return str(error).startswith("LOADING")
    except OSError:  # it does not listen yet
        return False
    return False


@pytest.mark.parametrize("mode", sorted(MODES))
def test_a_client_that_came_while_redis_was_loading_keeps_its_lease(mode: str) -> None:
    """The PING behind SUBSCRIBE was refused, which was taken for a refused subscription. From
    then on each request on that connection got the reply to the one before it.
    """
    with ExitStack() as stack:
        server = stack.enter_context(Redis(config=SLOWLY))
        stage = Stage(RedisBench(server.url, server), MODES[mode]())
        stack.callback(stage.mode.close)
        stack.callback(lambda: stage.mode.run(stage.clear()))
        server.command("EVAL", FILL, 0)
        started = stack.enter_context(ThreadPoolExecutor(1)).submit(server.restart, keep_data=True)
        wait_until(lambda: _loading(server), "it loads its data", 10.0)

        async def play() -> None:
            client = stage.client()
            with pytest.raises(EngineUnavailable, match="LOADING"):
                await acquire(client.lock("x", ttl=2.5), 0)
            await stage.mode.until(started.done, "it has loaded its data")
            holder = await acquire(client.lock("x", ttl=2.5), 5)
            await stage.mode.sleep(5.0)
            holder.ensure_held()
            await release(holder)

        stage.mode.run(play())
