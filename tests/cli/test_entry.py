"""The command `lockfast` itself: it is there, and says what is missing if it cannot run."""

import subprocess
import sys
from importlib.metadata import entry_points

from lockfast.cli import main


def test_the_package_installs_the_command() -> None:
    (entry,) = entry_points(group="console_scripts", name="lockfast")
    assert entry.load() is main


def test_without_its_extra_the_command_says_how_to_get_it() -> None:
    program = (
        "import sys; sys.modules['typer'] = None; import lockfast.cli as c; sys.exit(c.main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 78
    assert done.stderr == "lockfast: this needs typer: pip install 'lockfast[cli]'\n"
