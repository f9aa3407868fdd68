"""The command `lockfast` itself: it is there, and says what is missing if it cannot run."""

import os
import signal
import subprocess
import sys
from importlib.metadata import entry_points

import lockfast
from lockfast.cli import main
from tests.servers import Redis


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


def test_ctrl_c_while_it_starts_shows_no_traceback() -> None:
    program = (
        "import sys\n"
        "class Pressed:\n"
        "    def find_spec(self, name, *more):\n"
        "        if name == 'lockfast.cli.app':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Pressed())\n"
        "import lockfast.cli as c; sys.exit(c.main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")


def test_the_command_line_starts_without_the_packages_of_the_service() -> None:
    """Signed tokens once imported msgspec, and `lockfast who` did not start without it."""
    program = (
        "import sys\n"
        "for name in ('cryptography', 'jwt', 'msgspec', 'uvicorn', 'websockets'):\n"
        "    sys.modules[name] = None\n"
        "import lockfast.cli as c\n"
        "sys.argv = ['lockfast', 'serve', '--help']\n"
        "sys.exit(c.main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_terminal_that_lacks_a_letter_gets_its_number_and_the_command_does_its_work() -> None:
    """An emoji as a reason made `break` exit with 64 where the terminal was ASCII."""
    with Redis() as server, lockfast.connect(server.url) as client:
        lease = client.lock("é", ttl=9).acquire()
        environment = {**os.environ, "PYTHONIOENCODING": "ascii", "LOCKFAST_URL": server.url}
        words = ["break", "é", "--yes", "--reason", "\N{FIRE}"]
        for command in (["ls"], ["who", "é"], words, ["who", "é"]):
            done = subprocess.run(
                [sys.executable, "-m", "lockfast.cli", *command],
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode in {0, 1}, done.stderr  # 1: nobody holds it
            assert "codec" not in done.stderr
        assert "\\U0001f525" in done.stdout + done.stderr
        assert lease.wait_lost(9)  # at its next renewal


def test_python_runs_it_by_the_name_of_the_package() -> None:
    """Where `lockfast` is not on the PATH, people type `python -m` and the name."""
    done = subprocess.run(
        [sys.executable, "-m", "lockfast", "--version"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, f"lockfast {lockfast.__version__}\n")
