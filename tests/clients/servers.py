"""Starts a Redis and replicas for the tests of a client in another language, and then obeys.

It writes where they are, as one line of JSON. Then it reads one JSON list per line, such as
["pause", 0], and answers each with a line. It ends the servers when its input ends.
"""

from __future__ import annotations

import json
import sys

from lockfast.service.keys import new_key, stored
from tests.servers import Redis, Replica
from tests.servers.certificates import Certificates
from tests.service.signing_keys import new_pem, written

PATIENCE = 20.0  # seconds for a drain


class Secure(Replica):
    """A replica with TLS and an API key."""

    def __init__(self, engine: str) -> None:
        """Make the key and the certificate."""
        super().__init__(engine)
        self.key = new_key()
        self.certificates = Certificates(self.folder)
        made = self.certificates
        signing = written(self.folder / "signing.pem", new_pem())
        (self.folder / "secure.toml").write_text(
            f'signing_key_file = "{signing}"\n'
            f'host = "127.0.0.1"\nport = {self.port}\nssl_certfile = "{made.certificate_path}"\n'
            f'ssl_keyfile = "{made.key_path}"\n[keys]\n{stored("tests", self.key)}\n',
            "utf-8",
        )

    def argv(self) -> list[str]:
        """Tell the command line."""
        serve = [sys.executable, "-P", "-m", "lockfast.cli", "serve"]
        return [*serve, "--config", str(self.folder / "secure.toml")]

    def is_ready(self) -> bool:
        """Tell whether it serves, by its log: it answers nobody without TLS."""
        return str(self.port) in self.log()


def obey(replicas: list[Replica], verb: str, place: int) -> None:
    """Do something to a replica."""
    replica = replicas[place]
    if verb == "drain":
        replica.drain()
        replica.drained(PATIENCE)
    elif verb == "pause":
        replica.pause()
    elif verb == "resume":
        replica.resume()
    elif verb == "kill":
        replica.kill()
    elif verb == "start":
        replica.start()
    else:
        raise ValueError(f"unknown command {verb!r}")


def main() -> None:
    """Serve."""
    with (
        Redis() as redis,
        Secure(redis.url) as secure,
        Replica(redis.url) as first,
        Replica(redis.url) as second,
    ):
        told = {
            "replicas": [first.url, second.url],
            "secure": f"lockfasts://localhost:{secure.port}",
            "key": secure.key,
            "ca": str(secure.certificates.ca_path),
            "python": sys.executable,
        }
        _write(told)
        for line in sys.stdin:
            verb, place = json.loads(line)
            obey([first, second], verb, place)
            _write("done")


def _write(said: object) -> None:
    sys.stdout.write(f"{json.dumps(said)}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
