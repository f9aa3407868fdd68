"""Set-ups: the versions of the servers that a run uses, and how its clients come to them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.robustness.sites.site import Access
from tests.servers.process import ServerError
from tests.servers.versions import (
    HOME,
    Env,
    newer_etcd,
    newer_zookeeper,
    newest_valkey,
    oldest_redis,
)

_FOLDER = HOME / "setups"
_REDIS = ("redis", "redis-aof", "redis-cluster", "redlock", "service-redis", "service-redlock")
_ETCD = ("etcd", "service-etcd")
_POSTGRES = ("postgres", "service-postgres")
_MYSQL = ("mysql", "service-mysql")


@dataclass(frozen=True)
class Setup:
    """One set-up, for the sites that have it."""

    name: str
    sites: tuple[str, ...] = ()
    get: Callable[[Path], Env] | None = None
    """Fetches the servers into a folder, if they are not those of this machine."""
    access: Access = Access.PLAIN
    without: tuple[str, ...] = ()
    """Faults that it does not have."""

    def environment(self) -> Env:
        """Return the environment in which its servers are found; fetch them if they are not here.

        A ServerError says why they could not be fetched.
        """
        if self.get is None:
            return {}
        folder = _FOLDER / self.name
        known = folder / "environment.json"
        if not known.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.parent.mkdir(parents=True, exist_ok=True)
            try:
                env = self.get(folder)
            except (OSError, ValueError, subprocess.CalledProcessError) as error:
                raise ServerError(
                    f"the servers of {self.name} were not fetched: {error}"
                ) from error
            # PATH is that of today, and what comes first in it is what was fetched.
            said = {name: value.removesuffix(os.environ["PATH"]) for name, value in env.items()}
            known.write_text(json.dumps(said), "utf-8")
        found: dict[str, str] = json.loads(known.read_text("utf-8"))
        return {
            name: value + os.environ["PATH"] if name == "PATH" else value
            for name, value in found.items()
        }


DEFAULT = Setup("default")
"""The servers of this machine, which is Debian 12 in CI, without TLS."""

OTHERS = (
    Setup("valkey-9.1", _REDIS, newest_valkey),
    Setup("redis-6.2", _REDIS, oldest_redis),
    Setup("etcd-3.5", _ETCD, newer_etcd),
    Setup("zookeeper-3.9", ("zookeeper", "service-zookeeper"), newer_zookeeper),
    Setup("pgbouncer", _POSTGRES, access=Access.POOLED),
    Setup(
        "tls",
        (
            *("redis", "redis-aof", "redlock", "service-redis", "service-redlock"),
            *(*_ETCD, *_POSTGRES, *_MYSQL),
        ),
        access=Access.TLS,
        # The copy of a request would come on a connection that has not logged in.
        without=("duplicate",),
    ),
)
SETUPS = {setup.name: setup for setup in (DEFAULT, *OTHERS)}


def of_site(site: str) -> list[Setup]:
    """Tell the set-ups that a site has."""
    return [DEFAULT, *(setup for setup in OTHERS if site in setup.sites)]


def choose(site: str, seed: int) -> Setup:
    """Choose the set-up of a run by its seed: the others come first, and then all in turn."""
    among = of_site(site)
    return among[seed % len(among)]
