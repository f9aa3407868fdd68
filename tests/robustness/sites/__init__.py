"""Sites: the servers of each engine, every one on a host of its own."""

from tests.robustness.sites.redis import RedisSite, SavingRedisSite
from tests.robustness.sites.site import Site

SITES: dict[str, type[Site]] = {site.name: site for site in (RedisSite, SavingRedisSite)}

__all__ = ["SITES", "RedisSite", "SavingRedisSite", "Site"]
