"""What to do about a connection to the service that failed, for the end of its error message."""

from __future__ import annotations

import ssl
from http import HTTPStatus

EXPIRED = 10  # X509_V_ERR_CERT_HAS_EXPIRED of OpenSSL
UNTRUSTED = {18, 19, 20, 21}  # a self-signed certificate, or an authority that is not known
ELSEWHERE = {62, 64}  # the certificate is for another host name, or for another IP address
TLS_TO_PLAIN = {"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"}  # by OpenSSL 3.0, by OpenSSL 3.2
PLAIN_TO_TLS = "Does the service have TLS? Then write lockfasts:// in the URL"
GATEWAYS = {HTTPStatus.BAD_GATEWAY, HTTPStatus.GATEWAY_TIMEOUT}


def for_error(error: OSError) -> str:
    """Return what to do about an error of the connection, as a sentence; empty if nobody knows."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _for_certificate(error.verify_code)
    if isinstance(error, ssl.SSLError) and error.reason in TLS_TO_PLAIN:
        return "The service has no TLS: write lockfast:// in the URL, or give it a certificate"
    # asyncio joins the texts of a host's addresses into one OSError without a number.
    if isinstance(error, ConnectionRefusedError) or "Connect call failed" in str(error):
        return "Start `lockfast serve` there, or correct the host and the port in the URL"
    return ""


def _for_certificate(code: int) -> str:
    if code in UNTRUSTED:
        return (
            "Name the file of the authority that signed the service's certificate by ssl_ca_certs "
            "in the URL. If the certificate is self-signed, name the certificate"
        )
    if code == EXPIRED:
        return "Renew the certificate of the service, and send HUP to each replica"
    if code in ELSEWHERE:
        return "Write a host into the URL for which the service's certificate was made"
    return ""


def for_status(status: int, *, secure: bool) -> str:
    """Return what to do about an HTTP status of the reply to the handshake; empty if unknown."""
    if status in GATEWAYS:
        return "Does the proxy reach a replica?"
    if status == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE:
        return "Is the API key or token longer than 8 KiB?"
    if status == HTTPStatus.BAD_REQUEST and not secure:
        return PLAIN_TO_TLS
    return ""
