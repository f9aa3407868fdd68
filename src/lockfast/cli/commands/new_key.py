"""`lockfast new-key`: make an API key for a client of the service."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from lockfast.cli.exit_codes import Misconfigured
from lockfast.cli.render.stdout import Json, copyable, tell
from lockfast.service.keys import new_key, stored

KeyName = Annotated[
    str,
    typer.Argument(
        metavar="NAME", show_default=False, help="Who uses the key, such as the program's name."
    ),
]


Out = Annotated[
    str | None,
    typer.Option(
        "--out",
        metavar="FILE",
        help="Write the key to this new file, for the client's `password_file`.",
    ),
]


def make(name: KeyName, *, out: Out = None, json: Json = False) -> None:
    """Make an API key for a client of the service.

    It prints the key, and the line by which `lockfast serve` recognises it. The line has only a
    hash, so nobody can show the key again. Give the key to the client, and put the line into the
    file of --keys-file, or below [keys] in that of --config. Then send HUP to `lockfast serve`.

    With --out, it writes the key to a file, and prints only the line.

    For example:
      lockfast new-key billing
      lockfast new-key billing --out billing.key >> keys.toml

    Exit codes:
      0   it has made a key
      64  the name cannot be used
      78  the file exists, or cannot be written
    """
    key = new_key()
    line = stored(name, key)
    if out is not None:
        _write(out, key)
        copyable(line)
        return
    if json:
        tell({"name": name, "key": key, "line": line})
        return
    copyable(f"The key, which is shown only now: {key}")
    copyable(f"The line for lockfast serve:      {line}")


def _write(path: str, key: str) -> None:
    """Write a key where only this user can read it. No file is replaced: it may be another key."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as error:
        raise Misconfigured(
            f"{path!r} exists, and is not replaced, because its key may be in use: choose another "
            "file, or remove this one first"
        ) from error
    except OSError as error:
        raise Misconfigured(
            f"{path!r} cannot be written: {error.strerror}. Choose a folder that exists, and in "
            "which you may write"
        ) from error
    with os.fdopen(descriptor, "w") as stream:
        stream.write(f"{key}\n")
