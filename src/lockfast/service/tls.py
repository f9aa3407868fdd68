"""TLS of a replica: the context for its connections, from the files of a certificate and a key."""

from __future__ import annotations

import ssl
from contextlib import suppress
from pathlib import Path

from lockfast.url import unreadable

ROUNDS = 4  # messages in each direction of a handshake, and more


def server_context(certificate: str, key: str | None) -> ssl.SSLContext:
    """Return a context with this certificate. Raise `ValueError` if the files cannot be used.

    `key`: the file of the key. None: it is in the certificate's file.
    """
    for name, path in (("ssl_certfile", certificate), ("ssl_keyfile", key)):
        if path is not None:
            try:
                Path(path).open("rb").close()
            except OSError as error:
                raise ValueError(unreadable(name, path, error)) from None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION  # it costs the server much, and a client nothing
    context.set_alpn_protocols(["http/1.1"])
    try:
        # An empty password, because OpenSSL would ask for one at the terminal, and wait.
        context.load_cert_chain(certificate, key, password="")
    except OSError as error:
        why = f" ({error.reason})" if isinstance(error, ssl.SSLError) and error.reason else ""
        raise ValueError(
            f"ssl_certfile, {certificate!r}, cannot be used"
            + (f" with ssl_keyfile, {key!r}" if key is not None else "")
            + f"{why}: put a certificate and its own key without a password there, in PEM format"
        ) from None
    return context


def expiry(context: ssl.SSLContext, certificate: str) -> float:
    """Return when the certificate of a context expires, by the wall clock.

    Shakes hands with itself, since Python reads no certificate otherwise. Raises `ValueError` if
    clients would reject the certificate, for example because it has expired.
    """
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False  # which name clients use is not known here
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # the certificate vouches for itself
    try:
        client.load_verify_locations(certificate)
        there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
        server = context.wrap_bio(there, back, server_side=True)
        peer = client.wrap_bio(back, there)
        for _ in range(ROUNDS):
            for each in (peer, server):
                with suppress(ssl.SSLWantReadError):
                    each.do_handshake()
        found = peer.getpeercert()
        if not found:
            raise ssl.SSLError("no handshake")
        return float(ssl.cert_time_to_seconds(str(found["notAfter"])))
    except (OSError, ValueError) as error:
        why = getattr(error, "verify_message", "") or getattr(error, "reason", "") or error
        raise ValueError(
            f"ssl_certfile, {certificate!r}, is not accepted by clients ({why}): renew it"
        ) from None
