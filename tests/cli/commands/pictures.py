"""The pictures of the documentation, taken of real runs in a real terminal.

`python -m tests.cli.commands.pictures` takes them again.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import groupby
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET

import pyte
from rich.console import Console
from rich.style import Style
from rich.text import Text

import lockfast
from tests.cli.commands.terminal import Terminal
from tests.servers import Redis, wait_until

FOLDER = Path(__file__).parents[3] / "docs" / "pictures"
LOCKFAST = [sys.executable, "-W", "error", "-m", "lockfast.cli"]
CAST = [
    ("web-1", "billing.py", "invoice:42"),
    ("web-2", "stock.py", "stock:7", "invoice:42"),
    ("web-3", "orders.py", "", "stock:7"),
    ("web-3", "reports.py", "report"),
    ("web-1", "shop.py", "catalogue"),
    ("web-2", "shop.py", "catalogue"),
]
CHARACTER = 12.2  # the width of one in Rich's pictures
COLOURS = {"brown": "yellow", "brightblack": "bright_black", "default": "default"}


@contextmanager
def cast(url: str) -> Iterator[None]:
    """Let all of the cast take their places."""
    with ExitStack() as stack:
        for member in CAST:
            process = stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-W", "error", "-m", "tests.cli.commands.cast", url, *member],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                )
            )
            stack.callback(process.kill)
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
        with lockfast.connect(url) as looker:
            wait_until(lambda: len(looker.inspect()) == 7, "all are in their places")
        yield


class Shot(NamedTuple):
    """A screen as it was at one moment."""

    text: str
    svg: str


def watch() -> Shot:
    """Run `watch` until all is to be seen."""
    with Redis() as server, cast(server.url):
        argv = [*LOCKFAST, "--url", server.url, "watch", "--every", "0.2"]
        with Terminal(argv, columns=112, lines=24) as terminal:
            terminal.see("invoice:42", "catalogue", "report", "waits, holding stock:7", "hot names")
            return Shot(terminal.text, drawn(terminal.screen, "watch"))


def demo() -> Shot:
    """Run `demo` to its end. On a busy machine a worker may be too slow: then once more."""
    while True:
        with Terminal([*LOCKFAST, "demo", "--fast"], columns=80, lines=66) as terminal:
            assert terminal.end(120) == 0, terminal.text
        if "This machine is busy" not in terminal.text:
            return Shot(terminal.text, drawn(terminal.screen, "demo"))


def drawn(screen: pyte.Screen, title: str) -> str:
    """Draw a screen as SVG, without the blank lines at its end."""
    paper = Console(record=True, width=screen.columns, file=io.StringIO(), force_terminal=True)
    last = max(number for number, line in enumerate(screen.display) if line.strip())
    for number in range(last + 1):
        row = screen.buffer[number]
        chars = [row[column] for column in range(screen.columns)]
        line = Text()
        for style, part in groupby(chars, key=_style):
            line.append("".join(char.data for char in part), style)
        paper.print(line, no_wrap=True, overflow="crop", crop=True)
    svg = paper.export_svg(title=f"lockfast {title}", unique_id=title)
    # Rich names a font on somebody's server: the reader's own will do.
    return re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL).replace("Fira Code, ", "")


def _style(char: pyte.screens.Char) -> Style:
    return Style(
        color=_colour(char.fg),
        bgcolor=_colour(char.bg),
        bold=char.bold,
        italic=char.italics,
        reverse=char.reverse,
    )


def _colour(name: str) -> str:
    return f"#{name}" if re.fullmatch("[0-9a-f]{6}", name) else COLOURS.get(name, name)


def read(svg: str) -> str:
    """Read a picture's text back: each piece of it stands at its line and column."""
    rows: dict[int, dict[int, str]] = {}
    for piece in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text"):  # noqa: S314  # ours
        clip = piece.attrib.get("clip-path", "")
        if number := re.search(r"line-(\d+)", clip):
            column = round(float(piece.attrib["x"]) / CHARACTER)
            rows.setdefault(int(number[1]), {})[column] = "".join(piece.itertext())
    lines = []
    for _, pieces in sorted(rows.items()):
        line = ""
        for column, text in sorted(pieces.items()):
            line = line.ljust(column) + text
        lines.append(line)
    return "\n".join(lines)


def essence(text: str) -> list[str]:
    """Give the lines of a screen without what differs from run to run: ids, times, widths."""
    text = re.sub(r"[ \xa0]+", " ", text)
    text = re.sub(r"\d\d:\d\d:\d\d|\d{4,}|(?<=pid )\d+|(?<=web-\d )\d+|\d+(?= s\b)", "0", text)
    text = re.sub(r"[━─]+( [━─]+)?", "─", text)
    return [line for line in map(str.strip, text.splitlines()) if line]


PICTURES = {"watch": watch, "demo": demo}


def main() -> None:
    """Take all of them."""
    FOLDER.mkdir(exist_ok=True)
    for name, take in PICTURES.items():
        (FOLDER / f"{name}.svg").write_text(take().svg, "utf-8")


if __name__ == "__main__":
    main()
