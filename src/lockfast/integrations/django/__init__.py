"""Django: commands of which one runs at a time on all machines, and `migrate` as one of them."""

from lockfast.integrations.django.locked import Locked

__all__ = ["Locked"]
