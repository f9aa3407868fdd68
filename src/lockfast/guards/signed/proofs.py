"""Signed tokens: the check of one, and what it says."""

from __future__ import annotations

import json
import re
import time
from typing import Any, NamedTuple

import jwt

from lockfast.guards.http.header import HIGHEST
from lockfast.guards.mark import Shown
from lockfast.guards.signed.keys import PublicKeys

TYPE = "fencing+jwt"
LONGEST = 8_192  # characters of a signed token
LEEWAY = 60.0  # seconds by which the clocks of the service and of this machine may differ
_TOKEN = re.compile("[1-9][0-9]{0,15}")
_ID = re.compile("[0-9a-f]{32}")
_JWS = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")


class Proven(NamedTuple):
    """What a signed token says."""

    shown: Shown
    """The name of the lock, the fencing token and the id of the claim. Guards take it in place of a
    lease."""
    subject: str
    """Who the holder is for the service. Empty if the service knows no subjects."""
    issued: int
    """When it was signed, in seconds since 1970."""


class Proofs:
    """Verifies signed tokens, with the service's public keys.

    A token that is valid may be stale. So pass it to a guard afterwards, which compares it with the
    mark of the resource.

    Args:
        keys: The public keys of the service.
        audience: The audience for which tokens must be signed, such as the URL of this resource.

    Example:
        ::

            proofs = Proofs(PublicKeys(jwks), audience="https://billing.example.com")
            proven = proofs.verify(signed, "invoice:42")
            assert proven.shown.name == "invoice:42"
    """

    def __init__(self, keys: PublicKeys, audience: str) -> None:
        """Take the keys."""
        if not audience:
            raise ValueError("the audience must not be empty")
        self._keys = keys
        self._audience = audience
        self._jws = jwt.PyJWS()

    def verify(self, signed: str, name: str) -> Proven:
        """Return what a signed token says.

        Args:
            signed: The signed token, as `lease.signed(audience)` returns it.
            name: The name of the lock that guards the resource. The resource must choose it.

        Returns:
            Its contents. Pass `shown` to a guard.

        Raises:
            ValueError: It is forged, malformed, of another lock or for another audience, or its key
                is not one of the service's.
        """
        said = self._said(signed)
        if said.get("aud") != self._audience:
            found = repr(said.get("aud"))[:200]
            raise ValueError(
                f"the signed token is for the audience {found}, and not for {self._audience!r}"
            )
        if said.get("lock") != name:
            raise ValueError(f"the signed token is not for the lock {name!r}")
        token, id_ = _text(said, "token", _TOKEN), _text(said, "id", _ID)
        floor = _text(said, "floor", _TOKEN) if "floor" in said else token
        subject, issued = said.get("sub", ""), said.get("iat")
        if not isinstance(subject, str) or type(issued) is not int:
            raise ValueError("the signed token lacks a field")
        if not int(floor) <= int(token) <= HIGHEST:
            raise ValueError("the signed token has a number that is not possible")
        if issued > time.time() + LEEWAY:
            raise ValueError("the signed token was signed in the future: compare the clocks")
        shown = Shown(name, int(token), id_, int(floor), shared="floor" in said)
        return Proven(shown, subject, issued)

    def check(self, signed: str, at: Shown) -> None:
        """Check that a signed token proves the values in a request.

        Args:
            signed: The signed token.
            at: The values in the request.

        Raises:
            ValueError: It proves other values, or none.
        """
        if self.verify(signed, at.name).shown != at:
            raise ValueError("the signed token is of another grant than the request")

    def _said(self, signed: str) -> dict[str, Any]:
        """Return the contents of a token whose signature is right."""
        if len(signed) > LONGEST or not _JWS.fullmatch(signed):
            raise ValueError("this is no signed token")
        try:
            header = jwt.get_unverified_header(signed)
            if header.get("typ") != TYPE or header.get("alg") != "EdDSA" or "crit" in header:
                raise ValueError("this is no signed token of a lock")
            key = self._keys.find(str(header.get("kid")))
            if key is None:
                raise ValueError("the signed token names a key that the service does not have")
            whole = self._jws.decode_complete(signed, key, algorithms=["EdDSA"])
            said = json.loads(whole["payload"])
        except (jwt.PyJWTError, RecursionError, OverflowError, TypeError) as error:
            raise ValueError(f"the signature is not valid: {str(error)[:100]}") from None
        if not isinstance(said, dict):
            raise ValueError("the signed token lacks a field")  # noqa: TRY004
        return said


def _text(said: dict[str, Any], name: str, form: re.Pattern[str]) -> str:
    value = said.get(name)
    if not isinstance(value, str) or not form.fullmatch(value):
        raise ValueError(f"the signed token has no valid {name}")
    return value
