"""The display of the demo: two workers, the lock as the engine has it, and the account."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.text import Text

from lockfast import Holder
from lockfast.cli.render.table import bar
from lockfast.show.claims import share

MOST, LEAST = 16, 5  # lines of text of an act that stay on the screen, on a high and a low screen
ABOVE = 16  # lines that everything else takes, and lines that are wrapped
WIDTH = 36


class Scene:
    """Shows the current state. In a terminal it redraws it; elsewhere it prints lines of text."""

    def __init__(
        self, console: Console, look: Callable[[], Sequence[Holder]], pause: float
    ) -> None:
        """Draw nothing yet.

        `look`: reads the claims on the lock. `pause`: seconds to wait after each line of text.
        """
        self.doing: dict[str, str] = {}
        self.account: Path | None = None
        self.pids: dict[int, str] = {}
        self._console = console
        self._look = look
        self._pause = pause
        self._told: list[Text] = []
        self._claims: Sequence[Holder] = ()
        self._room = min(max(console.height - ABOVE, LEAST), MOST)
        self._live: Live | None = None

    def __enter__(self) -> Self:
        """Return the scene. It draws nothing before the first act."""
        return self

    def __exit__(self, *_: object) -> None:
        """Draw a last time, and leave that picture on the screen."""
        self._leave()

    def act(self, title: str, account: Path) -> None:
        """Begin an act. The last picture of the one before stays above it."""
        self._leave()
        self.account = account
        self.doing = dict.fromkeys(self.doing, "idle")
        self._told = []
        self._console.print(Text(f"\n{title}", style="bold"))
        if self._console.is_terminal:
            self._live = Live(console=self._console, auto_refresh=False)
            self._live.start()
        self.tick()

    def _leave(self) -> None:
        if self._live is not None:
            self.tick()
            self._live.stop()

    def tell(self, line: str, style: str = "") -> None:
        """Show a line of text, and wait so that people can read it."""
        text = Text(line, style=style)
        self._told.append(text)
        if not self._console.is_terminal:
            self._console.print(text)
        self.wait(self._pause)

    def wait(self, seconds: float) -> None:
        """Wait, and redraw the screen meanwhile."""
        end = time.monotonic() + seconds
        self.tick()
        while time.monotonic() < end:
            time.sleep(min(0.1, seconds))
            self.tick()

    def tick(self) -> None:
        """Redraw the current state, if this is a terminal."""
        if self._live is None:
            return
        self._claims = self._look()
        self._live.update(self._drawn(), refresh=True)

    def _drawn(self) -> RenderableType:
        pids = {name: pid for pid, name in self.pids.items()}
        workers = [
            Panel(Text(doing), title=f"worker {name}, pid {pids[name]}", width=WIDTH, height=5)
            for name, doing in self.doing.items()
        ]
        engine = Panel(self._lock(), title="the lock, as the engine has it", width=WIDTH, height=5)
        account = Panel(self._balance(), title="the account", width=WIDTH, height=5)
        told = self._told[-self._room :]
        return Group(Columns(workers), Columns([engine, account]), *told)

    def _lock(self) -> Text:
        if not self._claims:
            return Text("free", style="dim")
        lines = []
        for claim in self._claims[:2]:
            name = self.pids.get(claim.who.pid, "?")
            if claim.granted:
                lines.append(Text(f"{name} holds, token {share(claim)}"))
                lines.append(bar(claim))
            else:
                lines.append(Text(f"{name} waits", style="yellow"))
        return Text("\n").join(lines)

    def _balance(self) -> Text:
        assert self.account is not None  # noqa: S101  # for the type checker
        return Text(f"{self.account.name}: {self.account.read_text('ascii')}", style="bold")
