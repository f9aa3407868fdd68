"""The Redis guard: it applies a list of commands in one atomic step, unless the token is stale.

You pass your own client of redis-py. lockfast does not import redis-py here, so a client of
valkey-py works as well.
"""

from lockfast.guards.redis.guard import AsyncRedisGuard, PartlyApplied, RedisGuard

__all__ = ["AsyncRedisGuard", "PartlyApplied", "RedisGuard"]
