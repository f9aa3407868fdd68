"""The commands of ip(8) and iptables(8), many at once."""

import subprocess

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


def names(*what: str) -> list[str]:
    """Tell the names of links or namespaces: the first word of each line, less what follows @."""
    argv = [program("ip"), "-brief", *what]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60)
    return [line.split()[0].partition("@")[0] for line in done.stdout.splitlines() if line.strip()]


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
