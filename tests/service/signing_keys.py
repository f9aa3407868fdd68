"""Keys for signed tokens, in files."""

from __future__ import annotations

from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat


def new_pem() -> bytes:
    """Return a new private key, as `openssl genpkey -algorithm ed25519` writes it."""
    key = Ed25519PrivateKey.generate()
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def written(path: Path, *pems: bytes) -> str:
    """Write keys into a file, the one that signs first."""
    path.write_bytes(b"".join(pems))
    path.chmod(0o600)
    return str(path)
