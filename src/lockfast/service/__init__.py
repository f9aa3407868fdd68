"""The service: a network protocol in front of an engine, with any number of replicas."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType

from lockfast.service.config import Config


def serve(config: Config) -> None:
    """Run a replica until SIGTERM or SIGINT.

    Args:
        config: The URL of the engine, the address to listen on, and the files for TLS and keys.

    Raises:
        ImportError: The extra `service` is not installed.
        ValueError: The URL is not one of an engine, a file cannot be used, or other machines could
            connect without TLS or an API key.

    Example:
        ::

            serve(Config(url="redis://localhost:6379/0", port=7070))
    """
    load().serve(config)


def load() -> ModuleType:
    """Import and return the server. Raise `ImportError` if the extra `service` is missing."""
    try:
        return import_module("lockfast.service.server")
    except ImportError as error:
        raise missing(error) from error


def missing(error: ImportError) -> ImportError:
    """Return the error for a package that the service needs and that is not installed."""
    top = (error.name or "").partition(".")[0]
    if top in sys.stdlib_module_names:  # distributions ship some of them separately
        return ImportError(
            f"the service needs {error.name}, a module of Python itself, which this Python was "
            "built without",
            name=error.name,
        )
    return ImportError(
        f"the service needs {error.name}: pip install 'lockfast[service]'", name=error.name
    )
