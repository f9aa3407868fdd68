"""The dashboard: who holds which lock, who waits, since when, and what went wrong, in a browser."""

from lockfast.web.access import User
from lockfast.web.app import App, app
from lockfast.web.request import Request

__all__ = ["App", "Request", "User", "app"]
