"""The public keys of a service, from its URL or from a file. They change when keys are rotated."""

from __future__ import annotations

import json
import logging
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import jwt

from lockfast.plain import plain

log = logging.getLogger("lockfast")
LARGEST = 64 * 1_024  # bytes of a key set
MOST_KEYS = 16
JWKS = "/.well-known/jwks.json"
TIMEOUT = 5.0  # seconds to load it from a URL
LEAST = 10.0  # seconds between two attempts
LOCAL = {"localhost", "127.0.0.1", "::1"}


class PublicKeys:
    """The public keys with which signed tokens are verified.

    They are loaded when the object is made. From then on, another thread loads them again every
    `refresh` seconds while tokens are verified, and when a token names a key that is not known. If
    that fails, the keys that are there stay in use.

    Args:
        source: The URL of the service's key set, such as
            `https://locks.example.com/.well-known/jwks.json`, the path of a file that has it, or
            its contents. A URL needs `https`, except on this machine. It is read without a
            proxy, and no redirect is followed.
        refresh: Seconds after which the keys are loaded again.

    Raises:
        OSError: The keys cannot be loaded.
        ValueError: The source has no public key for Ed25519, or the URL has no TLS.
    """

    def __init__(self, source: str | Path | Mapping[str, Any], *, refresh: float = 300.0) -> None:
        """Load the keys."""
        self._source = source
        self._refresh = refresh
        self._mutex = threading.Lock()
        self._loading = False
        plain = isinstance(source, str) and source.startswith("http://")
        if plain and urlsplit(str(source)).hostname not in LOCAL:
            raise ValueError("public keys need https: anybody in between could replace them")
        self._keys = _parsed(self._read())
        self._loaded = time.monotonic()

    def find(self, kid: str) -> Any | None:  # noqa: ANN401  # PyJWT's
        """Return the key with this id. Never waits.

        Args:
            kid: The id of the key.

        Returns:
            The key, or None.
        """
        found = self._keys.get(kid)
        age = time.monotonic() - self._loaded
        if age >= self._refresh or (found is None and age >= LEAST):
            self._begin()
        return found

    def _begin(self) -> None:
        """Load the keys in another thread, unless that is under way."""
        if isinstance(self._source, Mapping):
            return
        with self._mutex:
            if self._loading:
                return
            self._loading = True
        threading.Thread(target=self._load, name="lockfast-keys", daemon=True).start()

    def _load(self) -> None:
        try:
            self._keys = _parsed(self._read())
        except (OSError, ValueError) as error:
            log.warning(
                "the public keys were not loaded again, and those that are known stay in use: %s",
                error,
            )
        finally:
            self._loaded = time.monotonic()
            self._loading = False

    def _read(self) -> bytes:
        source = self._source
        if isinstance(source, Mapping):
            return json.dumps(source).encode()
        if isinstance(source, str) and source.startswith(("http://", "https://")):
            found = _fetched(source)
        else:
            with Path(source).open("rb") as stream:
                found = stream.read(LARGEST + 1)
        if len(found) > LARGEST:
            raise ValueError(f"the key set has more than {LARGEST} bytes")
        return found


def _fetched(url: str) -> bytes:
    """Return the key set at a URL. Raise `OSError`, which names the URL."""
    try:
        return _got(url)
    except OSError as error:
        raise OSError(f"the public keys at {url} cannot be loaded: {error}") from error


def _got(url: str) -> bytes:
    """Return what is at a URL. A proxy or a redirect could replace the keys, so neither is used."""
    parts = urlsplit(url)
    secure, host = parts.scheme == "https", parts.hostname or ""
    make = HTTPSConnection if secure else HTTPConnection
    line = make(host, parts.port)
    path = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
    sock = socket.create_connection((host, line.port), TIMEOUT)
    if secure:
        context = ssl.create_default_context()
        sock = context.wrap_socket(sock, server_hostname=host, do_handshake_on_connect=False)
    # The socket's own limit counts from each byte, and a byte may come now and then.
    late = threading.Timer(TIMEOUT, _cut, [sock])
    late.daemon = True
    late.start()
    try:
        if isinstance(sock, ssl.SSLSocket):
            sock.do_handshake()
        line.sock = sock
        line.request("GET", path)
        with line.getresponse() as response:
            if response.status != HTTPStatus.OK:
                why = f"HTTP {response.status}"
                if response.status == HTTPStatus.NOT_FOUND:
                    why += f". Its path is {JWKS}, and the service needs a signing_key_file"
                raise OSError(why)
            return response.read(LARGEST + 1)
    except HTTPException as error:
        raise OSError(plain(f"the answer is no HTTP: {error!r}"[:200])) from None
    finally:
        late.cancel()
        line.close()
        sock.close()


def _cut(sock: socket.socket) -> None:
    with suppress(OSError):  # it has ended
        socket.socket.shutdown(sock, socket.SHUT_RDWR)


def _parsed(data: bytes) -> dict[str, Any]:
    """Return the keys for Ed25519, by their ids."""
    try:
        entries = json.loads(data)["keys"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValueError('this is no key set: {"keys": [...]}') from None
    if not isinstance(entries, list) or len(entries) > MOST_KEYS:
        raise ValueError(f"a key set has at most {MOST_KEYS} keys")
    keys: dict[str, Any] = {}
    for each in entries:
        if not isinstance(each, dict) or (each.get("kty"), each.get("crv")) != ("OKP", "Ed25519"):
            continue
        if "d" in each:
            raise ValueError("the key set has a private key")
        kid = each.get("kid")
        if not isinstance(kid, str) or kid in keys:
            raise ValueError("each key needs a kid of its own")
        try:
            keys[kid] = jwt.PyJWK(each, algorithm="EdDSA").key
        except (jwt.PyJWTError, ValueError, TypeError) as error:
            raise ValueError(f"a key cannot be read: {str(error)[:200]}") from None
    if not keys:
        raise ValueError("the key set has no key for Ed25519")
    return keys
