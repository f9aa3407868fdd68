"""The commands of ip(8) and iptables(8), many at once."""

import contextlib
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.servers.process import ServerError, program


def ip(*lines: str, space: str | None = None, force: bool = False) -> None:
    """Run lines of ip, in a namespace; with force, go on after one that fails, and do not mind."""
    where = () if space is None else ("-n", space)
    argv = [program("ip"), *where, *(("-force",) if force else ()), "-batch", "-"]
    _feed(argv, lines, check=not force)


def filters(space: str, rules: list[str]) -> None:
    """Put these rules in the place of all that were in force in a namespace, in one step."""
    head = ("*filter", ":INPUT ACCEPT [0:0]", ":OUTPUT ACCEPT [0:0]")
    _feed([*entering(space), program("iptables-restore"), "-w"], [*head, *rules, "COMMIT"])


def entering(space: str) -> list[str]:
    """Tell the head of a command line that runs in a namespace; it keeps its process id."""
    return [program("nsenter"), f"--net=/run/netns/{space}", "--"]


def spaces() -> dict[str, int]:
    """Tell the namespaces that have names, and an id of each, which no later one has."""
    return _listed(Path("/run/netns"), lambda path: path.stat().st_ino)


def links() -> dict[str, int]:
    """Tell the links of the harness's own namespace, and their ids."""
    return _listed(Path("/sys/class/net"), lambda path: int((path / "ifindex").read_bytes()))


def _listed(folder: Path, number: Callable[[Path], int]) -> dict[str, int]:
    # Not by ip: its listings may lack something while other processes add and remove.
    found = {}
    # There is no folder before the first namespace.
    for path in folder.iterdir() if folder.exists() else ():
        with contextlib.suppress(OSError):
            found[path.name] = number(path)
    return found


def _feed(argv: list[str], lines: list[str] | tuple[str, ...], *, check: bool = True) -> None:
    done = subprocess.run(
        argv,
        input="".join(f"{line}\n" for line in lines),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )
    if check and done.returncode != 0:
        raise ServerError(f"{' '.join(argv)} failed:\n{done.stdout}\n" + "\n".join(lines))
