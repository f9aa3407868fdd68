"""Run the contract on other versions of the servers: the oldest that we support, and newer ones.

`make test` uses the versions of this machine's Debian. tests/servers/versions.py gets the others,
below `build/servers`. Name some to run only those: `python -m scripts.server_versions redis-6.2`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from tests.servers.versions import (
    HOME,
    ROOT,
    Env,
    newer_etcd,
    newer_redis,
    newer_zookeeper,
    oldest_redis,
    postgres,
    valkey,
)

REDIS_TESTS = (
    *("contract/test_redis.py", "contract/test_redlock.py", "contract/test_cluster.py"),
    *("contract/test_redis_rights.py", "contract/test_redis_full.py", "guards/test_redis.py"),
)
POSTGRES_TESTS = (
    *("contract/test_postgres.py", "contract/test_postgres_rights.py", "guards/test_postgres.py"),
    *("guards/test_postgres_rights.py", "guards/test_postgres_trigger.py"),
)


class Version(NamedTuple):
    """Servers of one version: how to get them, and the tests that are run on them."""

    name: str
    get: Callable[[Path], Env]
    """Fetch them into a folder, and return the environment in which the tests find them."""
    tests: tuple[str, ...]


VERSIONS = (
    Version("redis-6.2", oldest_redis, REDIS_TESTS),
    Version("redis-8.0", newer_redis, (*REDIS_TESTS, "contract/test_sentinel.py")),
    Version("valkey-8.1", valkey, (*REDIS_TESTS, "contract/test_sentinel.py")),
    Version("etcd-3.5", newer_etcd, ("contract/test_etcd.py",)),
    Version("zookeeper-3.9", newer_zookeeper, ("contract/test_zookeeper.py",)),
    Version("postgres-13", postgres("13.23.0-beta.16"), POSTGRES_TESTS),
    Version("postgres-16", postgres("16.14.0-beta.17"), POSTGRES_TESTS),
    Version("postgres-17", postgres("17.10.0-beta.17"), POSTGRES_TESTS),
    Version("postgres-18", postgres("18.4.0-beta.17"), POSTGRES_TESTS),
)


def failed(versions: Iterator[Version]) -> Iterator[str]:
    """Run the tests on each version, and yield the names of those that failed."""
    for name, get, tests in versions:
        shutil.rmtree(HOME / name, ignore_errors=True)
        env = os.environ | get(HOME / name)
        print(f"--> {name}", flush=True)
        began = time.monotonic()
        argv = [sys.executable, "-m", "tests.tries", "-n", "4", "-q"]
        argv += [f"tests/{test}" for test in tests]
        good = subprocess.run(argv, cwd=ROOT, env=env, check=False).returncode == 0
        said = "passed" if good else "FAILED"
        print(f"<-- {name}: {said} in {time.monotonic() - began:.0f} s", flush=True)
        if not good:
            yield name


def main(wanted: list[str]) -> int:
    """Test the versions that are named, or all; return an exit code."""
    unknown = set(wanted) - {version.name for version in VERSIONS}
    if unknown:
        print(f"unknown: {', '.join(sorted(unknown))}. There are:", *(v.name for v in VERSIONS))
        return 2
    return 1 if list(failed(v for v in VERSIONS if not wanted or v.name in wanted)) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
