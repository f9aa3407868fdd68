"""Where constants come from: the day, the versions and the machine."""

from __future__ import annotations

import os
import platform
import re
import sqlite3
import subprocess
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = {
    "redis": "redis-server",
    "redlock": "redis-server",
    "postgres": "postgres",
    "mysql": "mariadbd",
    "etcd": "etcd",
}
JARS = Path("/usr/share/java")
NUMBER = re.compile(r"\d+\.\d+(?:\.\d+)?")


def about(engine: str) -> dict[str, str]:
    """Return what a reader needs to compare these constants with others."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": _said("git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"),
        "engine": _version(engine),
        "python": platform.python_version(),
        "cores": str(os.cpu_count()),
        "processor": _processor(),
    }


def _version(engine: str) -> str:
    if engine == "sqlite":
        return sqlite3.sqlite_version
    if engine == "zookeeper":
        found = [NUMBER.search(jar.name) for jar in sorted(JARS.glob("zookeeper-[0-9]*.jar"))]
        return next((each.group() for each in found if each), "unknown")
    found_one = NUMBER.search(_said(PROGRAMS[engine], "--version"))
    return found_one.group() if found_one else "unknown"


def _said(*command: str) -> str:
    return subprocess.check_output(command, text=True).strip()


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())
