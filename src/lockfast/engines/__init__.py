"""The engines, each behind the port. They are imported only when their scheme is asked for."""

from __future__ import annotations

from collections.abc import Callable

from lockfast.port import Engine
from lockfast.runtime.aio import Aio
from lockfast.runtime.threads import Threads
from lockfast.url import Target


def opener(target: Target, runtime: Threads | Aio) -> Callable[[], Engine]:
    """Find the engine of a URL; its connections are made later, on first use."""
    scheme = target.scheme
    if scheme == "memory":
        from lockfast.engines import memory

        return memory.opener(target, runtime)
    if scheme.partition("+")[0] in ("redis", "rediss", "valkey", "valkeys"):
        try:
            from lockfast.engines import redis
        except ImportError as error:
            raise ImportError(
                "the Redis engine needs hiredis: pip install 'lockfast[redis]'"
            ) from error
        return redis.opener(target, runtime)
    if scheme in ("postgresql", "postgres"):
        try:
            from lockfast.engines import postgres
        except ImportError as error:
            raise ImportError(
                "the PostgreSQL engine needs psycopg: pip install 'lockfast[postgres]'"
            ) from error
        return postgres.opener(target, runtime)
    raise ValueError(
        f"no engine for {scheme}://. There are redis://, rediss://, valkey://, valkeys://, "
        "redis+sentinel://, redis+cluster://, postgresql:// and memory://"
    )
