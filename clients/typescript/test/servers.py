"""Starts a Redis and replicas of the service for the tests, tells where they are, and then obeys.

It reads one JSON list per line, such as ["pause", 0], and answers each with one line. It ends the
servers when its input ends.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from lockfast.service.keys import new_key, stored  # after the path was set
from tests.servers import Redis, Replica


class Secure(Replica):
    """A replica with TLS and an API key."""

    def __init__(self, engine: str) -> None:
        """Make a key, and a certificate of our own authority."""
        self.key = new_key()
        super().__init__(engine)
        self.ca = self.folder / "server.crt"
        command = (
            "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
            "-subj /CN=localhost -addext subjectAltName=DNS:localhost "
            "-addext keyUsage=critical,digitalSignature,keyCertSign -keyout server.key -out server.crt"
        )
        subprocess.run(command.split(), cwd=self.folder, check=True, capture_output=True)
        (self.folder / "secure.toml").write_text(
            f'host = "127.0.0.1"\nport = {self.port}\nssl_certfile = "server.crt"\n'
            f'ssl_keyfile = "server.key"\n[keys]\n{stored("tests", self.key)}\n',
            "utf-8",
        )

    def argv(self) -> list[str]:
        """Tell the command line."""
        serve = [sys.executable, "-P", "-m", "lockfast.cli", "serve"]
        return [*serve, "--config", str(self.folder / "secure.toml")]

    def is_ready(self) -> bool:
        """Tell whether it serves. No connection without TLS gets an answer."""
        return b"serving" in self.log_path.read_bytes()


def _command(replicas: list[Replica], words: list[object]) -> object:
    verb, *rest = words
    replica = replicas[int(str(rest[0]))]
    if verb == "drain":
        replica.drain()
        replica.drained(20.0)
    elif verb in {"pause", "resume", "kill", "start"}:
        getattr(replica, str(verb))()
    else:
        raise ValueError(f"unknown command {verb!r}")
    return "done"


def main() -> None:
    """Serve."""
    with Redis() as redis, Secure(redis.url) as secure:
        with Replica(redis.url) as first, Replica(redis.url) as second:
            replicas = [first, second]
            told = {
                "redis": redis.url,
                "replicas": [each.url for each in replicas],
                "secure": f"lockfasts://localhost:{secure.port}",
                "key": secure.key,
                "ca": str(secure.ca),
                "python": sys.executable,
            }
            print(json.dumps(told), flush=True)
            for line in sys.stdin:
                print(json.dumps(_command(replicas, json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
