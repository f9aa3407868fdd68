"""Certificates: a CA, and a server's certificate for its addresses, made by openssl."""

from collections.abc import Sequence
from pathlib import Path

from tests.servers.process import program, run

# Spelled out, because Python 3.13 and later refuse a CA that does not say what it is for.
_CONFIG = """
[req]
distinguished_name = name
prompt = no
[name]
CN = lockfast tests
[ca]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[server]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth, clientAuth
subjectAltName = {addresses}, DNS:localhost
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
"""


class Certificates:
    """The files of one CA and of one server it vouches for."""

    def __init__(self, folder: Path, addresses: Sequence[str] = ("127.0.0.1",)) -> None:
        """Make them in the folder; the server's is for these addresses, and for localhost."""
        self.ca_path = folder / "ca.crt"
        self.certificate_path = folder / "server.crt"
        self.key_path = folder / "server.key"
        self._folder = folder
        self._addresses = ", ".join(f"IP:{address}" for address in addresses)
        self.issue()

    def issue(self, *, days: int = 30) -> None:
        """Make them, or others in the same places: with a new CA, and new keys."""
        folder = self._folder
        ca_key, config, request = folder / "ca.key", folder / "openssl.cnf", folder / "server.csr"
        config.write_text(_CONFIG.format(addresses=self._addresses), encoding="ascii")
        # Elliptic keys, since RSA keys take a noticeable time to make.
        key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
        openssl, with_config = program("openssl"), ("-config", str(config))
        run(
            *(openssl, "req", "-x509", *with_config, "-extensions", "ca", "-days", "30", *key),
            *("-keyout", str(ca_key), "-out", str(self.ca_path)),
        )
        run(
            *(openssl, "req", *with_config, "-subj", "/CN=localhost", *key),
            *("-keyout", str(self.key_path), "-out", str(request)),
        )
        run(
            *(openssl, "x509", "-req", "-in", str(request), "-days", str(days)),
            *("-CA", str(self.ca_path), "-CAkey", str(ca_key), "-CAcreateserial"),
            *("-extfile", str(config), "-extensions", "server"),
            *("-out", str(self.certificate_path)),
        )
