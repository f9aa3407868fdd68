"""The Redis guard: any list of commands, applied in one step if the token still stands.

The client is redis-py's, and the user's own; nothing of redis-py is imported here, so that
valkey-py's does as well.
"""

from lockfast.guards.redis.guard import AsyncRedisGuard, PartlyApplied, RedisGuard

__all__ = ["AsyncRedisGuard", "PartlyApplied", "RedisGuard"]
