"""Reads the configuration again: at SIGHUP, and in a worker that takes the place of a dead one."""

from __future__ import annotations

import logging
import select
from collections.abc import Callable

from lockfast.service.config import Config, unchanged
from lockfast.service.credentials import Credentials, load

log = logging.getLogger("lockfast")
PAUSE = 1.0  # seconds between two attempts of a worker


def again(
    config: Config, old: Credentials, reread: Callable[[], Config]
) -> tuple[Config, Credentials]:
    """Return the configuration as it is now, and what is in its files. `config`: as it was at the
    start. `old`: what is in use. Raise `OSError` or `ValueError` if it cannot be used.
    """
    new = reread()
    found = load(unchanged(config, new))
    if (found.tls is None) != (old.tls is None):
        raise ValueError("TLS cannot be switched on or off: restart the service for that")
    # The file may be written at this moment, and have only its beginning.
    if old.guarded and not found.guarded:
        raise ValueError("it lets everybody in: restart the service for that")
    if old.subjects is not None and found.subjects is None:
        raise ValueError(
            "it has no [subjects], so each key could do everything: restart the service for that"
        )
    return new, found


def present(config: Config, old: Credentials, reread: Callable[[], Config], parent: int) -> Config:
    """Return the configuration with which a worker starts. What was taken away by SIGHUP stays
    taken away, so a worker waits for a configuration that can be used. `parent`: a file descriptor
    that can be read when the parent has ended. Raises `SystemExit` then.
    """
    said = ""
    while True:
        try:
            new, _ = again(config, old, reread)
        except (OSError, ValueError) as error:
            if str(error) != said:
                said = str(error)
                log.warning("a worker waits until the configuration can be used: %s", error)
        else:
            return unchanged(config, new)
        if select.select([parent], [], [], PAUSE)[0]:
            raise SystemExit
