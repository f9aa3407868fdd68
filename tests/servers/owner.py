"""The user that a server runs as, because some refuse to run as root."""

import os
import shutil
from pathlib import Path

from tests.servers.guard import guard
from tests.servers.process import Server


def give(server: Server, user: str) -> None:
    """Let a user have a server's folder, if this process is root."""
    if os.geteuid() == 0:
        guard().folder.chmod(0o755)  # it has to get to its own folder, and to its clock
        if "LOCKFAST_CLOCK" in server.env:
            Path(server.env["LOCKFAST_CLOCK"]).chmod(0o666)
        shutil.chown(server.folder, user, user)
