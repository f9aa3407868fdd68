"""The guard: a shell that ends this session's servers when the session itself was killed.

PR_SET_PDEATHSIG would be shorter, but it fires when the *thread* that started the server ends,
and setting it needs a preexec_fn, which may deadlock once there are threads. The guard only
watches a pipe: however the session dies, the kernel closes the pipe's other end.
"""

import atexit
import os
import subprocess
import tempfile
from pathlib import Path

# Each server leads a process group of its own, so its forked children go with it. The servers'
# folders are removed twice because a process that is just dying may still add a file.
_SCRIPT = """
trap '' INT TERM HUP
pids=
while read -r sign pid; do
    left=
    for known in $pids; do [ "$known" = "$pid" ] || left="$left $known"; done
    pids=$left
    [ "$sign" = + ] && pids="$pids $pid"
done
for pid in $pids; do kill -s KILL -- "-$pid"; done
rm -rf -- "$1" || { sleep 0.2; rm -rf -- "$1"; }
"""


class Guard:
    """The session's folder, and the shell that removes it and ends the servers in it."""

    def __init__(self) -> None:
        """Make the folder and start the shell."""
        self.folder = Path(tempfile.mkdtemp(prefix="lockfast-servers-"))
        read_end, self._pipe = os.pipe()
        # A session of its own: a kill of the tests' process group must not take the guard along.
        # No inherited output: it would keep `pytest | tee` waiting for the guard.
        self._shell = subprocess.Popen(
            ["/bin/sh", "-c", _SCRIPT, "lockfast-guard", str(self.folder)],
            stdin=read_end,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(read_end)

    def watch(self, pid: int) -> None:
        """End the process group of this pid when the session dies."""
        os.write(self._pipe, b"+ %d\n" % pid)

    def forget(self, pid: int) -> None:
        """Leave this pid alone: it has ended, and its number may be given to another."""
        os.write(self._pipe, b"- %d\n" % pid)

    def close(self) -> None:
        """End what is still watched, and remove the folder."""
        # At once: gevent's os.close leaves it to a loop that turns no more while we wait below.
        os.closerange(self._pipe, self._pipe + 1)
        self._shell.wait()

    def abandon(self) -> None:
        """Let go of the pipe, in a forked child: the servers are the parent's."""
        os.close(self._pipe)
        self._shell.returncode = 0


_guards: list[Guard] = []


def guard() -> Guard:
    """Tell the guard of this process, starting it on first use."""
    if not _guards:
        _guards.append(Guard())
    return _guards[0]


def _close() -> None:
    while _guards:
        _guards.pop().close()


def _abandon() -> None:
    while _guards:
        _guards.pop().abandon()


atexit.register(_close)
os.register_at_fork(after_in_child=_abandon)
