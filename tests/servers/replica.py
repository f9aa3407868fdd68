"""A replica of the service, as `lockfast serve` runs it."""

import contextlib
import http.client
import signal
import subprocess
import sys
from pathlib import Path

from lockfast.service.keys import new_key, stored
from tests.servers.process import Home, Server, ServerError, address_of, free_port

ROOT = Path(__file__).resolve().parents[2]
SERVING = Path(__file__).with_name("serving.py")
CONFIGURED = Path("src/lockfast/service/config_file.py")
"""What a version has whose command serves other machines."""


class Replica(Server):
    """A replica in front of the engine with a URL. `with` starts it, and closes it at the end."""

    def __init__(self, engine: str, *, home: Home | None = None, key: str = "") -> None:
        """Choose a port. The process comes with start(). `key`: what clients need, if it has a home
        where they can reach it. An earlier version asks for none.
        """
        super().__init__("replica", env={"LOCKFAST_URL": engine}, home=home)
        self.host = address_of(home)
        self.port = free_port()
        self.run_from(ROOT)
        self._config = self.folder / "config.toml"
        self._config.write_text(
            f'host = "{self.host}"\nport = {self.port}\nbehind_proxy = true\n'
            f"[keys]\n{stored('tests', key or new_key())}\n",
            "utf-8",
        )

    @property
    def address(self) -> str:
        """The host and port, as host:port."""
        return f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """The URL for clients."""
        return f"lockfast://{self.address}"

    def run_from(self, root: Path) -> None:
        """Run the source in this folder, from the next start on."""
        self.root = root
        self.env["PYTHONPATH"] = str(root / "src")

    def argv(self) -> list[str]:
        """Tell the command line."""
        command = [sys.executable, "-P", "-m", "lockfast.cli", "serve"]
        if self.home is None:
            return [*command, "--port", str(self.port)]
        if (self.root / CONFIGURED).exists():
            return [*command, "--config", str(self._config)]
        return [sys.executable, "-P", str(SERVING), self.host, str(self.port)]

    def is_ready(self) -> bool:
        """Tell whether it answers. It listens before it can handle a signal."""
        return self._is_ok("/livez")

    def serves(self) -> bool:
        """Tell whether its engine answers it."""
        return self._is_ok("/readyz")

    def _is_ok(self, path: str) -> bool:
        line = http.client.HTTPConnection(self.host, self.port, timeout=3.0)
        with contextlib.closing(line):
            line.request("GET", path)
            return line.getresponse().status == http.HTTPStatus.OK

    def drain(self) -> None:
        """Ask it to end, with SIGTERM."""
        self.signal(signal.SIGTERM)

    def signal(self, number: int) -> None:
        """Send it a signal."""
        if self._process is None:
            raise ServerError(f"{self.name} does not run")
        self._process.send_signal(number)

    def drained(self, timeout: float) -> None:
        """Wait until it has ended in good order."""
        process = self._process
        if process is None:
            return
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise ServerError(f"{self.name} did not end within {timeout:g} s") from None
        if code:
            raise ServerError(f"{self.name} ended with {code}: {self.log()[-500:]}")
