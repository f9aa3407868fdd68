"""The settings of the page on Django views, with a transaction around every request."""

from settings import *  # type: ignore[import-not-found]  # noqa: F403  # the page's, by its folder
from settings import DATABASES

DATABASES["default"]["ATOMIC_REQUESTS"] = True
