"""The command `lockfast`. It needs the extra `cli`; the library itself does not."""

import io
import os
import signal
import sys


def main() -> int:
    """Run the command line and return its exit code."""
    try:
        from lockfast.cli.app import launch  # noqa: PLC0415  # the extra may be missing
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "lockfast":
            raise
        sys.stderr.write(f"lockfast: this needs {error.name}: pip install 'lockfast[cli]'\n")
        return 78  # the value of `Code.CONFIGURATION`
    except KeyboardInterrupt:  # while the modules load: end as a program that does not handle it
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
        raise
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # The terminal's encoding may lack a character of a lock's name.
            stream.reconfigure(errors="backslashreplace")
    return launch()
