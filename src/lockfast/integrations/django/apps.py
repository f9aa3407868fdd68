"""The app, for INSTALLED_APPS: it brings the command `locked_migrate`."""

from django.apps import AppConfig


class LockfastConfig(AppConfig):
    """Named, because by itself its label would be "django"."""

    name = "lockfast.integrations.django"
    label = "lockfast"
