"""Django: management commands, such as `migrate`, that run once at a time across all machines."""

from lockfast.integrations.django.locked import Locked

__all__ = ["Locked"]
