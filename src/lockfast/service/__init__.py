"""The service: a network protocol in front of an engine, with any number of replicas."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType


def serve(url: str | None, host: str, port: int) -> None:
    """Run a replica in front of the engine with this URL, until SIGTERM or SIGINT.

    Args:
        url: The URL of the engine. None: LOCKFAST_URL or LOCKFAST_URL_FILE gives it.
        host: The address to listen on. It must be a loopback address.
        port: The port to listen on.

    Raises:
        ImportError: The extra `service` is not installed.
        ValueError: The URL is not one of an engine, or other machines could connect to the host.

    Example:
        ::

            serve("redis://localhost:6379/0", "127.0.0.1", 7070)
    """
    load().serve(url, host, port)


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
