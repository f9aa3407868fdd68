"""The command `lockfast`. It needs the extra `cli`; the library itself does not."""

import io
import sys


def main() -> int:
    """Run the command line; give the exit code."""
    try:
        from lockfast.cli.app import launch  # noqa: PLC0415  # the extra may be missing
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "lockfast":
            raise
        sys.stderr.write(f"lockfast: this needs {error.name}: pip install 'lockfast[cli]'\n")
        return 78  # as `Code.CONFIGURATION`
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal may lack a letter of a name
    return launch()
