"""API keys: how they are made, stored and compared. Only their hashes are stored."""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Iterable, Mapping
from hashlib import sha256

BYTES = 32  # of randomness in a key
PREFIX = "lockfast_"  # so that people and scanners for leaked secrets recognise a key
STORED = "sha256:"
MOST = 1_000  # keys: each connection is compared with all of them
NAMED = "1 to 64 letters, digits and . _ -, of which the first is a letter or a digit"
_NAME = re.compile("[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_KEY = re.compile(PREFIX + "[A-Za-z0-9_-]{43}")
_HASH = re.compile(STORED + "[0-9a-f]{64}")


def new_key() -> str:
    """Return a new key."""
    return PREFIX + secrets.token_urlsafe(BYTES)


def stored(name: str, key: str) -> str:
    """Return the line by which a key is stored. Raise `ValueError` if the name cannot be used."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"a key's name has {NAMED}, and {name[:100]!r} has not")
    quoted = f'"{name}"' if "." in name else name  # a bare dot makes a table of TOML
    return f'{quoted} = "{STORED}{_digest(key).hex()}"'


def is_name(name: str) -> bool:
    """Return whether this can be the name of a key, or of a subject."""
    return bool(_NAME.fullmatch(name))


class Keys:
    """The keys with which clients may connect. It is never changed."""

    def __init__(self, entries: Mapping[str, object] | None = None) -> None:
        """Take names with their hashes. Raise `ValueError` about what is wrong."""
        self._names: dict[bytes, str] = {}
        for name, value in (entries or {}).items():
            if not _NAME.fullmatch(name):
                raise ValueError(f"{name[:100]!r} is not the name of a key: it has {NAMED}")
            # The value is not shown: it may be the key itself.
            if not isinstance(value, str) or not _HASH.fullmatch(value):
                raise ValueError(
                    f'the key {name} must be stored as "{STORED}" and 64 hexadecimal digits, as '
                    "`lockfast new-key` prints it"
                )
            digest = bytes.fromhex(value.removeprefix(STORED))
            if digest in self._names:
                raise ValueError(f"{self._names[digest]} and {name} are the same key: remove one")
            self._names[digest] = name
        if len(self._names) > MOST:
            raise ValueError(f"there are {len(self._names)} keys, and at most {MOST} are possible")

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._names)

    def __contains__(self, digest: object) -> bool:
        """Return whether the key with this hash is one of them."""
        return digest in self._names

    def find(self, authorization: Iterable[bytes]) -> bytes | None:
        """Return the hash of the key that a request has, or None if it has none of these keys.

        `authorization`: the values of all headers of this name. All hashes are compared, and each
        completely, so that the time tells nothing about them.
        """
        values = list(authorization)
        if len(values) != 1:
            return None
        scheme, _, key = values[0].partition(b" ")
        text = key.strip().decode("latin-1")
        # A password that somebody has hashed by hand is no key: it could be guessed.
        if scheme.lower() != b"bearer" or not _KEY.fullmatch(text):
            return None
        shown, found = _digest(text), None
        for digest in self._names:
            if hmac.compare_digest(digest, shown):
                found = digest
        return found

    @property
    def names(self) -> list[str]:
        """The names of all keys."""
        return list(self._names.values())

    def name(self, digest: bytes) -> str:
        """Return the name of a key."""
        return self._names[digest]


def _digest(key: str) -> bytes:
    return sha256(key.encode()).digest()
