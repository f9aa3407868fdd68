"""Reads the TOML files of a replica: its configuration, and its API keys."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lockfast.service.audit import STANDARD_OUTPUT
from lockfast.service.config import MOST_WORKERS
from lockfast.service.signing import Signing
from lockfast.service.subjects import Subjects
from lockfast.url import HIGHEST_PORT, from_file, unreadable

LONGEST = 256 * 1_024  # bytes of a file
MOST_HANDLE_KEYS = 4  # the present one, and those before it while handles of them are in use
SHORTEST_KEY = 32  # characters: as many as a key of 24 random bytes has in base64
TYPES: dict[str, type] = {
    "url": str,
    "url_file": str,
    "host": str,
    "port": int,
    "workers": int,
    "behind_proxy": bool,
    "ssl_certfile": str,
    "ssl_keyfile": str,
    "keys_file": str,
    "keys": dict,
    "handle_key_file": str,
    "signing_key_file": str,
    "subjects": dict,
    "jwt": dict,
    "uds": str,
    "uds_mode": str,
    "certificate_header": str,
    "audit_file": str,
    "web": bool,
}
"""The entries that a configuration may have."""
PATHS = (
    *("url_file", "ssl_certfile", "ssl_keyfile", "keys_file", "handle_key_file"),
    *("signing_key_file", "uds", "audit_file"),
)
WORDS = {str: "a text", int: "a number", bool: "true or false", dict: "a table"}


def read(path: str) -> dict[str, Any]:
    """Return the entries of a configuration file, which are fields of `Config`.

    Raises `ValueError`, which names the file and the entry, if one of them is not known or of the
    wrong type: an entry that is ignored could be the one that keeps strangers out.
    """
    entries = _parsed("--config", path)
    for name, value in entries.items():
        if name not in TYPES:
            raise _wrong(path, f"{name[:100]!r} is not known. The entries are {', '.join(TYPES)}")
        if type(value) is not TYPES[name]:
            raise _wrong(path, f"{name} must be {WORDS[TYPES[name]]}")
    if not 1 <= entries.get("port", 1) <= HIGHEST_PORT:
        raise _wrong(path, f"port must be 1 to {HIGHEST_PORT}")
    if not 1 <= entries.get("workers", 1) <= MOST_WORKERS:
        raise _wrong(path, f"workers must be 1 to {MOST_WORKERS}")
    if "://" in str(entries.get("jwt", {}).get("jwks_file")):
        what = (
            "jwt.jwks_file must be a file: the service fetches no keys. Save them to one with curl"
        )
        raise _wrong(path, what)
    _place(entries, Path(path).parent)
    try:  # for the name of the file: `credentials` does it again
        Subjects(entries.get("subjects", {}))
    except ValueError as error:
        raise _wrong(path, str(error)) from None
    if "url_file" in entries:
        if "url" in entries:
            raise _wrong(path, "it has url and url_file: remove one of them")
        entries["url"] = from_file(entries.pop("url_file"))
    return entries


def _place(entries: dict[str, Any], folder: Path) -> None:
    """Make the paths relative to the folder of the file, not to where the service is started."""
    for name in entries.keys() & set(PATHS):
        if entries[name] != STANDARD_OUTPUT:
            entries[name] = str(folder / entries[name])
    keys = entries.get("jwt", {}).get("jwks_file")
    if isinstance(keys, str):
        entries["jwt"]["jwks_file"] = str(folder / keys)


def keys_of(path: str) -> Mapping[str, object]:
    """Return the entries of a file with API keys. Raise `ValueError` if it has none."""
    entries = _parsed("keys_file", path)
    if not entries:
        why = "it has no keys. `lockfast new-key NAME` prints a line for it"
        raise _unfit("keys_file", path, why)
    return entries


def handle_keys(path: str) -> tuple[bytes, ...]:
    """Return the keys of handles in a file. Raise `ValueError` if they cannot be used."""
    what = "handle_key_file"
    lines = tuple(line.strip() for line in _read(what, path).splitlines() if line.strip())
    make = "`openssl rand -base64 32` makes one"
    if not 1 <= len(lines) <= MOST_HANDLE_KEYS:
        why = f"it must have 1 to {MOST_HANDLE_KEYS} lines, a key each: {make}"
        raise _unfit(what, path, why)
    if any(len(line) < SHORTEST_KEY for line in lines):
        raise _unfit(what, path, f"a key has fewer than {SHORTEST_KEY} characters: {make}")
    return lines


def signing(path: str) -> Signing:
    """Return the keys in a file that sign tokens. Raise `ValueError` if they cannot be used."""
    data = _read("signing_key_file", path)
    try:
        return Signing(data)
    except ValueError as error:
        raise _unfit("signing_key_file", path, str(error)) from None


def _read(what: str, path: str) -> bytes:
    try:
        with Path(path).open("rb") as stream:
            data = stream.read(LONGEST + 1)
    except OSError as error:
        raise ValueError(unreadable(what, path, error)) from None
    if len(data) > LONGEST:
        raise _unfit(what, path, f"it has more than {LONGEST} bytes")
    return data


def _parsed(what: str, path: str) -> dict[str, Any]:
    data = _read(what, path)
    try:
        return tomllib.loads(data.decode())
    except UnicodeDecodeError:
        raise _unfit(what, path, "it is not UTF-8") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise _unfit(what, path, f"it is not TOML: {str(error)[:200]}") from None


def _wrong(path: str, why: str) -> ValueError:
    return ValueError(f"{path!r}: {why}")


def _unfit(what: str, path: str, why: str) -> ValueError:
    return ValueError(f"{what}, {path!r}: {why}")
