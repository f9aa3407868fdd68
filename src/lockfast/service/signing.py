"""Signed tokens: the service signs what it was told by the engine, and publishes its public keys.

The signature is a JSON Web Signature (RFC 7515) by Ed25519. Whoever has the public keys can verify
it, and needs neither the service nor the engine for that.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

JWKS = "/.well-known/jwks.json"
TYPE = "fencing+jwt"
"""The `typ` of a signed token. An access token that was signed by the same key is none."""
ALGORITHM = "EdDSA"
MOST_KEYS = 4  # the one that signs, the next one, and those of tokens that are still in use
MISSING = "signing_key_file needs PyJWT and cryptography: pip install 'lockfast[jwt]'"
_KEY = re.compile(rb"-----BEGIN PRIVATE KEY-----[^-]+-----END PRIVATE KEY-----")


class Signing:
    """The private keys: the first one signs, and the public keys of all are published."""

    def __init__(self, pem: bytes) -> None:
        """Take one or more private keys in PEM. Raise `ValueError` if they cannot be used, and
        `ImportError` if PyJWT is missing.
        """
        try:
            import jwt  # noqa: PLC0415  # an extra, which only this needs
            from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: PLC0415
            from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415
                load_pem_private_key,
            )
        except ImportError as error:
            raise ImportError(MISSING, name=error.name) from None
        found: list[Ed25519PrivateKey] = []
        for each in _KEY.findall(pem):
            try:
                key = load_pem_private_key(each, None)
            except (ValueError, TypeError):
                raise ValueError("a private key in it cannot be read") from None
            if not isinstance(key, ed25519.Ed25519PrivateKey):
                raise ValueError("a key in it is not for Ed25519")  # noqa: TRY004  # of a file
            found.append(key)
        if pem.count(b"-----BEGIN ") != len(found):  # it may be written at this moment
            raise ValueError("a key in it is cut off, encrypted, or of another kind")
        if not 1 <= len(found) <= MOST_KEYS:
            make = "`openssl genpkey -algorithm ed25519` makes one"
            raise ValueError(f"it must have 1 to {MOST_KEYS} private keys in PEM: {make}")
        self._encode = jwt.PyJWS().encode
        self._key = found[0]
        known = [_jwk(each) for each in found]
        self._kid: str = known[0]["kid"]
        if len({each["kid"] for each in known}) < len(known):
            raise ValueError("a key is in it twice")
        self.jwks = json.dumps({"keys": known}).encode() + b"\n"
        """The public keys, as a JWK Set (RFC 7517)."""

    def sign(self, claims: Mapping[str, object]) -> str:
        """Return a signed token that says this, and when it was signed."""
        said = json.dumps({**claims, "iat": int(time.time())}, ensure_ascii=False).encode()
        headers = {"kid": self._kid, "typ": TYPE}
        return self._encode(said, self._key, algorithm=ALGORITHM, headers=headers)


def _jwk(key: Ed25519PrivateKey) -> dict[str, Any]:
    """Return a public key as a JWK. Its id is its thumbprint (RFC 7638), so it needs no name."""
    x = _text(key.public_key().public_bytes_raw())
    whole = json.dumps({"crv": "Ed25519", "kty": "OKP", "x": x}, separators=(",", ":"))
    kid = _text(hashlib.sha256(whole.encode()).digest())
    return {"kty": "OKP", "crv": "Ed25519", "x": x, "kid": kid, "alg": ALGORITHM, "use": "sig"}


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
