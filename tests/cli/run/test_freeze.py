"""In jeopardy: people are warned, and with --freeze the command stands still until it is safe."""

from __future__ import annotations

from pathlib import Path

from tests.cli.run.family import MEMBERS, Family
from tests.cli.run.program import Program
from tests.servers import Proxy, Redis, wait_until


def test_in_jeopardy_every_descendant_stands_still_and_goes_on_once_it_is_safe(
    tmp_path: Path,
) -> None:
    family = Family(tmp_path)

    def standing() -> set[str]:
        return {name for name, trace in family.traces().items() if trace.stopped}

    options = ("--freeze", "--ttl", "10", "--grace", "0")
    with Redis() as server, Proxy(server.host, server.port) as proxy:
        args = ("run", "cold", *options, "--", *family.argv)
        with Program(f"redis://{proxy.address}", *args) as program:
            family.complete()
            proxy.cut()
            wait_until(lambda: standing() == set(MEMBERS), "all stand still", 20.0)
            frozen = family.traces()
            program.says("was not renewed")
            assert family.traces() == frozen
            proxy.heal()
            program.says("was renewed again")
            wait_until(lambda: not standing(), "all go on", 20.0)
            assert family.alive() == set(MEMBERS)
