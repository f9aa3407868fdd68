"""The Django app for INSTALLED_APPS. It provides the command `locked_migrate`."""

from django.apps import AppConfig


class LockfastConfig(AppConfig):
    """The configuration of the app. It sets a label, because the default would be "django"."""

    name = "lockfast.integrations.django"
    label = "lockfast"
