"""`lockfast doctor`: show what the live server guarantees, and which settings weaken that."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer
from rich.text import Text

from lockfast import Guarantees, Level
from lockfast.cli.engine_url import connect
from lockfast.cli.render.stdout import Json, labelled, show, tell
from lockfast.core.record import FORMAT
from lockfast.plain import plain
from lockfast.primitives.inspection import formats
from lockfast.runtime.drive import drive
from lockfast.show.formats import foreign

Require = Annotated[
    str | None,
    typer.Option(
        metavar="LEVEL",
        help="Exit with 0 if the server guarantees at least this level: efficiency, fenced or "
        "consensus.",
        show_default=False,
    ),
]


def doctor(context: typer.Context, require: Require = None, *, json: Json = False) -> int:
    """Read the settings of the live server, and show what they guarantee.

    The command shows the level that the engine gives, and each setting that weakens it: the risk,
    and what to type to change the setting.

    Levels:
      efficiency  duplicate work is possible
      fenced      a fault may forget a grant, but a guarded resource is safe
      consensus   the grant itself survives the failure of any minority of servers

    For example:
      lockfast doctor
      lockfast --url etcd://h1,h2,h3 doctor --require consensus

    Exit codes:
      0   there are no findings; with --require, the level is at least that
      1   there are findings; with --require, the level is below that
      69  the engine cannot be reached
      78  the engine rejects the request: a wrong password, no rights, no schema
    """
    required = None if require is None else Level.of(require)
    with connect(context) as client:
        # First read a lock, as any client does. If that fails, no client can acquire a lock here,
        # and the server's settings say nothing.
        client.lock("lockfast doctor").holders()
        found = client.guarantees()
        stored = drive(formats(client._session))  # noqa: SLF001  # for operators, not for programs
    if stored - {FORMAT}:
        found = replace(found, findings=(*found.findings, foreign(stored - {FORMAT})))
    good = not found.findings if required is None else found.level >= required
    if json:
        tell(_fields(found, stored, good=good))
    else:
        _show(found, stored, required)
    return 0 if good else 1


def _fields(found: Guarantees, stored: set[int], *, good: bool) -> dict[str, object]:
    return {
        "engine": found.engine,
        "level": found.level.name.lower(),
        "promise": found.promise,
        "format": FORMAT,
        "stored_formats": sorted(stored),
        "findings": [finding._asdict() for finding in found.findings],
        "good": good,
    }


def _show(found: Guarantees, stored: set[int], required: Level | None) -> None:
    level = found.level.name.lower()
    show(Text.assemble(f"{plain(found.subject)} gives the level ", (level, "bold"), "."))
    show(Text(f"That means: {plain(found.promise)}."))
    formats_ = ", ".join(map(str, sorted(stored))) or "none, because no lock is in use"
    show(f"Stored format: {formats_}. This version reads and writes {FORMAT}.")
    for finding in found.findings:
        show("")
        show(Text(plain(finding.setting), style="bold yellow"))
        labelled("  risk    ", plain(finding.risk))
        labelled("  change  ", plain(finding.remedy))
    if not found.findings:
        show("No setting needs to be changed.")
    if required is not None and found.level < required:
        said = f"{required.name.lower()} is required."
        if found.best < required:
            said = f"{said} {found.lacks(required)}"
        show(Text(said, style="bold red"))
