"""JSON Web Tokens: checks those of clients with the public keys of a file."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

ALGORITHMS = ("RS256", "ES256", "EdDSA")
"""Those with a public key. Never `none`, and never HMAC, whose key would be the public one."""
TYPES = {"RS256": "RSA", "ES256": "EC", "EdDSA": "OKP"}
"""The type of key (kty) of each algorithm."""
LONGEST = 7_168  # characters of a token: a header has at most 8 KiB
LONGEST_FILE = 256 * 1_024  # bytes
MOST_KEYS = 100
LONGEST_SUBJECT = 256  # characters
MOST_GROUPS = 1_000
LEEWAY = 30  # seconds by which the clocks of two machines may differ
HIGHEST_LEEWAY = 300
RSA_BITS = 2_048
ENTRIES = ("jwks_file", "issuer", "audience", "algorithms", "leeway", "subject_claim")
MISSING = "[jwt] in the configuration needs PyJWT and cryptography: pip install 'lockfast[jwt]'"
_TOKEN = re.compile(rb"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class Token:
    """What a valid token says."""

    subject: str
    known_as: tuple[str, ...]
    """What is compared with the `tokens` of subjects."""
    expires: float
    """When it ends, by the wall clock, with the leeway."""


def is_token(authorization: Sequence[bytes]) -> bool:
    """Return whether a request shows something that may be a token."""
    return len(authorization) == 1 and _bare(authorization[0]) is not None


def _bare(shown: bytes) -> str | None:
    scheme, _, token = shown.partition(b" ")
    token = token.strip()
    if scheme.lower() != b"bearer" or len(token) > LONGEST or not _TOKEN.fullmatch(token):
        return None
    return token.decode("ascii")


class Tokens:
    """Checks tokens of one issuer. It is never changed."""

    def __init__(self, entries: Mapping[str, object]) -> None:
        """Take the table `jwt` of a configuration, and read the file with the keys.

        Raises `ValueError`, which names the entry or file that is wrong, and `ImportError` if
        PyJWT is missing.
        """
        try:
            import jwt  # noqa: PLC0415  # an extra, which only this needs
            import jwt.algorithms  # noqa: PLC0415
        except ImportError:
            raise ImportError(MISSING, name="jwt") from None
        if not jwt.algorithms.has_crypto:
            raise ImportError(MISSING, name="cryptography")
        self._jwt = jwt
        for name in entries:
            if name not in ENTRIES:
                raise ValueError(f"jwt.{name[:100]} is not known. It has {', '.join(ENTRIES)}")
        self._issuer = _text(entries, "issuer")
        self._audience = _text(entries, "audience")
        self._claim = _text(entries, "subject_claim") if "subject_claim" in entries else "sub"
        self.personal = self._claim == "sub"
        """Whether each subject of the configuration is one user."""
        self._algorithms = _algorithms(entries.get("algorithms"))
        leeway = entries.get("leeway", LEEWAY)
        if type(leeway) is not int or not 0 <= leeway <= HIGHEST_LEEWAY:
            raise ValueError(f"jwt.leeway must be 0 to {HIGHEST_LEEWAY} seconds")
        self._leeway = leeway
        self._keys = self._read(_text(entries, "jwks_file"))

    def verified(self, shown: bytes) -> Token | None:
        """Return what the token of a header says, or None if it is not valid."""
        token = _bare(shown)
        if token is None:
            return None
        try:
            return self._verified(token)
        except (self._jwt.PyJWTError, ValueError, TypeError, RecursionError, OverflowError):
            return None

    def _verified(self, token: str) -> Token | None:
        header = self._jwt.get_unverified_header(token)
        known = self._keys.get(str(header.get("kid")))
        # Each key has one algorithm, whatever the token says, so that nobody can swap it.
        if known is None or header.get("alg") != known[0] or "crit" in header:
            return None
        said: dict[str, Any] = self._jwt.decode(
            token,
            known[1],
            algorithms=[known[0]],
            audience=self._audience,
            issuer=self._issuer,
            leeway=self._leeway,
            options={
                "require": ["exp", "iss", "aud", "sub"],
                "verify_signature": True,
                "verify_exp": True,
                "verify_nbf": True,
                "verify_iat": True,
                "verify_aud": True,
                "verify_iss": True,
            },
        )
        subject, expires = said["sub"], float(said["exp"]) + self._leeway
        if not isinstance(subject, str) or not 0 < len(subject) <= LONGEST_SUBJECT:
            return None
        found = said.get(self._claim)
        groups = found if isinstance(found, list) else [found]
        known_as = tuple(each for each in groups[:MOST_GROUPS] if isinstance(each, str))
        return Token(subject, known_as, expires)

    def _read(self, path: str) -> dict[str, tuple[str, Any]]:
        """Return the algorithm and the key, by key id."""
        where = f"jwt.jwks_file {path!r}"
        try:
            with open(path, "rb") as stream:  # noqa: PTH123  # as the others
                raw = stream.read(LONGEST_FILE + 1)
        except OSError as error:
            raise ValueError(f"{where} cannot be read: {error.strerror}") from None
        if len(raw) > LONGEST_FILE:
            raise ValueError(f"{where} has more than {LONGEST_FILE} bytes")
        try:
            found = json.loads(raw)["keys"]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise ValueError(f'{where} is not a set of keys: {{"keys": [...]}}') from None
        if not isinstance(found, list) or not 0 < len(found) <= MOST_KEYS:
            raise ValueError(f"{where} must have 1 to {MOST_KEYS} keys")
        keys: dict[str, tuple[str, Any]] = {}
        for place, each in enumerate(found):
            made = self._key(f"{where}, keys[{place}]", each)
            if made is not None:
                kid, *rest = made
                if kid in keys:
                    raise ValueError(f"{where}: two keys have the kid {kid!r}")
                keys[kid] = rest[0], rest[1]
        if not keys:
            raise ValueError(f"{where} has no key for {', '.join(self._algorithms)}")
        return keys

    def _key(self, where: str, each: object) -> tuple[str, str, Any] | None:
        """Return the key id, the algorithm and the key. None: it is not for what is accepted."""
        if not isinstance(each, dict):
            raise ValueError(f"{where} is not an object")  # noqa: TRY004  # of a file
        if "d" in each or "k" in each:
            raise ValueError(f"{where} is a secret key. The file must have only public ones")
        fitting = [name for name in self._algorithms if TYPES[name] == each.get("kty")]
        named = each.get("alg")
        if not fitting or named not in {None, fitting[0]} or each.get("use", "sig") != "sig":
            return None
        kid = each.get("kid")
        if not isinstance(kid, str) or not 0 < len(kid) <= LONGEST_SUBJECT:
            raise ValueError(f"{where} has no kid, by which tokens name it")
        try:
            key = self._jwt.PyJWK(each, algorithm=fitting[0]).key
        except (self._jwt.PyJWTError, ValueError, TypeError, KeyError) as error:
            raise ValueError(f"{where} cannot be used: {str(error)[:200]}") from None
        if fitting[0] == "RS256" and key.key_size < RSA_BITS:
            raise ValueError(f"{where} has {key.key_size} bits, and at least {RSA_BITS} are needed")
        if fitting[0] == "ES256" and each.get("crv") != "P-256":
            raise ValueError(f"{where} is not on the curve P-256, which ES256 needs")
        return kid, fitting[0], key


def _text(entries: Mapping[str, object], name: str) -> str:
    value = entries.get(name)
    if not isinstance(value, str) or not value:
        raise ValueError(f"jwt.{name} must be a text, and not be empty")
    return value


def _algorithms(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(each in ALGORITHMS for each in value):
        raise ValueError(
            f"jwt.algorithms must be a list of {', '.join(ALGORITHMS)}. Those with a shared "
            "secret, and `none`, are never accepted"
        )
    return tuple(value)
