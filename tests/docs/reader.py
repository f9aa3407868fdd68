"""A reader who does what a page says: saves its files, types its commands, runs its snippets."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from tests.docs.page import Page, complaints
from tests.docs.tutorial import Step, matches
from tests.servers import wait_until

STAYS = re.compile(
    r"celery .*(worker|beat)|.*\buvicorn |.* sleep 600$"
    r"|lockfast (--url \S+ )?(watch|web|elect|serve(?!.*--check))\b"
    r"|(\w+=\S+ )*python (jobs\.py|worker\.py|hold\w*\.py|.* runserver )"
)
"""Programs that run until the reader presses Ctrl-C."""
SERVES = re.compile(r"lockfast serve ")
"""Programs that must run before the snippets of their page do."""
LOOKS = re.compile(r"redis-cli .* (llen|lrange|get) |curl |lockfast who |python who\.py")
"""Commands that only look: what they show may take a moment to come true."""
ELSEWHERE = re.compile(r"kubectl ")
"""Commands for machines that the tests do not have."""
KEPT = re.compile(r"export |cd ")
"""Commands that change the reader's shell."""
LONG = 120.0


class Reader:
    """One reader with one folder, one environment, and a terminal for each program that stays."""

    def __init__(
        self, folder: Path, environment: Path, swaps: Mapping[str, str], env: Mapping[str, str]
    ) -> None:
        """`swaps`: what a page writes, and what it is called here, such as a port."""
        self._folder = folder
        self._swaps = swaps
        self._kept: list[str] = []
        self._code = 0
        self._broken = False
        inherited = {k: v for k, v in os.environ.items() if k in {"LANG", "TERM", "TMPDIR"}}
        self._env = {
            **inherited,
            "HOME": str(folder),
            "PATH": f"{environment / 'bin'}:/usr/local/bin:/usr/bin:/bin",
            "VIRTUAL_ENV": str(environment),
            "PYTHONUNBUFFERED": "1",
            **env,
        }

    def follow(self, page: Page) -> None:
        """Do all that the page says."""
        for name, text in page.files.items():
            path = self._folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self._here(text), "utf-8")
        with ExitStack() as stack:
            steps = [Step(self._here(command), printed) for command, printed in page.steps]
            while steps and SERVES.match(steps[0].command):
                self._type(steps.pop(0), stack, asked=False)
            if page.snippets:
                self._snippets(page.snippets)
            for number, step in enumerate(steps, 1):
                asked = number < len(steps) and "$?" in steps[number].command
                self._type(step, stack, asked=asked)

    def _here(self, text: str) -> str:
        for old, new in self._swaps.items():
            text = text.replace(old, new)
        return text

    def _snippets(self, program: str) -> None:
        done = subprocess.run(
            ["python", "-W", "error", "-c", self._here(program)],
            cwd=self._folder,
            env=self._env,
            capture_output=True,
            text=True,
            timeout=LONG,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert not complaints(done.stderr), done.stderr

    def _type(self, step: Step, stack: ExitStack, *, asked: bool) -> None:
        if ELSEWHERE.match(step.command):
            return
        if KEPT.match(step.command):
            self._kept.append(step.command)
        elif STAYS.match(step.command):
            self._start(step.command, stack)
            # It occupies its terminal. The reader opens another one, which has no exports yet.
            self._kept.clear()
        elif step.printed and LOOKS.match(step.command):
            wait_until(lambda: self._shows(step), f"{step.command}: {step.printed}", LONG)
        else:
            # A command whose lock was broken is ended at its next renewal, sooner or later.
            self._broken |= step.command.startswith("lockfast break ")
            done = self._run(step.command)
            self._code = done.returncode
            heard = f"{step.command}\n{done.stdout}"
            assert self._code == 0 or asked, heard
            if step.printed:
                assert matches(done.stdout.splitlines(), step.printed), heard

    def _shows(self, step: Step) -> bool:
        shown = matches(self._run(step.command).stdout.splitlines(), step.printed)
        if not shown:
            time.sleep(0.5)  # each look starts a program
        return shown

    def _run(self, command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", self._script(f"(exit {self._code})\n{command}")],
            cwd=self._folder,
            env=self._env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,  # as a terminal shows both
            text=True,
            timeout=LONG,
            check=False,
        )

    def _script(self, command: str) -> str:
        return "\n".join([*self._kept, command])

    def _start(self, command: str, stack: ExitStack) -> None:
        """Start what stays; at the end of the page it must still run, and end on Ctrl-C."""
        log = stack.enter_context((self._folder / "terminal.log").open("a+"))
        process = subprocess.Popen(
            ["bash", "-c", self._script(command)],
            cwd=self._folder,
            env=self._env,
            stdin=subprocess.PIPE,  # nobody types, and nobody ends the input
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

        def end() -> None:
            running = process.poll() is None
            if running:
                os.killpg(process.pid, signal.SIGINT)
            try:
                process.communicate(timeout=LONG)
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
            assert running or self._broken, (
                f"{command} ended by itself:\n{Path(log.name).read_text('utf-8')}"
            )

        stack.callback(end)
        if " serve" in command:  # a reader sees the line in the other terminal, and goes on
            shown = Path(log.name)
            wait_until(lambda: " serving " in shown.read_text("utf-8"), f"{command} serves", LONG)
