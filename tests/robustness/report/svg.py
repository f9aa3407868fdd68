"""Pictures: a timeline as SVG, readable on light and on dark."""

from __future__ import annotations

from html import escape as html_escape

from lockfast.plain import plain
from tests.robustness.report.legend import LEGEND
from tests.robustness.report.places import Lanes, Shelf, wide
from tests.robustness.report.timeline import SERVERS, Bar, Dot, Timeline

WIDTH, LEFT, RIGHT = 960, 112, 24
TOP, LANE, LABEL, GAP = 62, 18, 14, 8
RESOURCE = 40
HUES = ("#2f7fc1", "#c9731f", "#2f9460", "#8a63c4", "#b8487f", "#5c8f1e", "#1d8f9a", "#a0522d")
STYLE = """
svg { font: 12px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif }
text { fill: #1f2328 } .soft { fill: #59636e } .small { font-size: 11px }
.head { font-size: 14px; font-weight: 600 } .edge { fill: #8f6100 } text.bad { fill: #c2202b }
text.in { fill: #ffffff; font-size: 11px; font-weight: 600 }
.back { fill: #ffffff } .lane { fill: #f3f5f7 } .line { stroke: #d5dae0 }
.band { fill: #f2b833; fill-opacity: .16; stroke: #b87d00; stroke-width: .8;
  stroke-dasharray: 3 2 }
.bad { stroke: #cf222e } .hatch { fill: #cf222e }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .soft { fill: #9da7b1 } .edge { fill: #e0ac3c }
  text.bad { fill: #ff7b76 } .back { fill: #14181d } .lane { fill: #1d232a }
  .line { stroke: #3a424b } .band { fill: #e3a62d; stroke: #d9a12b } .bad { stroke: #ff6b66 }
  .hatch { fill: #ff6b66 } }
text.bad { stroke: none }
""".strip()


def escape(text: str) -> str:
    """Write text in XML, in which control characters may not be at all."""
    return html_escape(plain(text))


def draw(line: Timeline) -> str:
    """Draw it."""
    return _Drawing(line).svg()


class _Drawing:
    def __init__(self, line: Timeline) -> None:
        self._line = line
        self._hues = {row: HUES[i % len(HUES)] for i, row in enumerate(line.rows)}
        self._parts: list[str] = []
        self._middles: dict[str, float] = {}
        """Where the bars of each row are: a stale write is tied to its writer."""

    def svg(self) -> str:
        line = self._line
        y = float(TOP)
        if any(band.row == SERVERS for band in line.bands):
            y = self._servers(y)
        for row in line.rows:
            y = self._client(row, y)
        ties, floor = len(self._parts), y
        for fenced, label in ((True, "fenced register"), (False, "unfenced twin")):
            y = self._resource(label, [dot for dot in line.dots if dot.fenced is fenced], y)
        self._parts[ties:ties] = self._ties(floor)
        grid = self._grid(y)
        height = self._legend(y + 34)
        body = "\n".join((*grid, *self._parts))
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" '
            f'width="{WIDTH}" height="{height:.0f}" role="img">\n'
            f"<title>{escape(line.title)}</title>\n<desc>{escape(line.told)}</desc>\n"
            f"<style>{STYLE}</style>\n{_HATCH}\n"
            f'<rect width="{WIDTH}" height="{height:.0f}" rx="8" class="back"/>\n'
            f'<text x="16" y="26" class="head">{escape(line.title)}</text>\n'
            f'<text x="16" y="45" class="soft">{escape(line.said)}; '
            f"token 1 is {line.first}</text>\n"
            f"{body}\n</svg>\n"
        )

    def _x(self, seconds: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * seconds / self._line.seconds

    def _text(self, x: float, y: float, words: str, kind: str = "", anchor: str = "") -> None:
        kinds = f' class="{kind}"' if kind else ""
        anchors = f' text-anchor="{anchor}"' if anchor else ""
        self._parts.append(f'<text x="{x:.1f}" y="{y:.1f}"{kinds}{anchors}>{escape(words)}</text>')

    def _rect(  # noqa: PLR0913  # a rectangle
        self, x: float, y: float, width: float, height: float, *, kind: str = "", more: str = ""
    ) -> None:
        kinds = f' class="{kind}"' if kind else ""
        self._parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="2"'
            f"{kinds}{more}/>"
        )

    def _lane(self, label: str, y: float, height: float) -> None:
        self._rect(LEFT, y, WIDTH - LEFT - RIGHT, height, kind="lane")
        self._text(LEFT - 10, y + height / 2 + 4, label, "", "end")

    # --- rows ---------------------------------------------------------------------------------

    def _servers(self, y: float) -> float:
        """Faults of servers and of the network, each on a lane of its own where they meet."""
        bands = sorted(band for band in self._line.bands if band.row == SERVERS)
        lanes = Lanes()
        placed = []
        for band in bands:
            left, right = self._x(band.began), self._x(band.ended)
            reach = max(right, left + wide(band.label) + 10)
            if reach > WIDTH - RIGHT:  # no room to the right: the words stand before it
                placed.append((band, lanes.place(left - wide(band.label) - 10, right), True))
            else:
                placed.append((band, lanes.place(left, reach), False))
        height = max(lanes.count, 1) * LANE + 6
        self._lane(SERVERS, y, height)
        for band, lane, before in placed:
            left, right = self._x(band.began), self._x(band.ended)
            top = y + 3 + lane * LANE
            self._band(left, top, right - left, LANE - 2)
            if before:
                self._text(left - 5, top + 12, band.label, "edge small", "end")
            else:
                self._text(left + 5, top + 12, band.label, "edge small")
        return y + height + GAP

    def _band(self, x: float, y: float, width: float, height: float) -> None:
        self._rect(*(x, y, max(width, 2.0), height), kind="band")

    def _client(self, row: str, y: float) -> float:
        line = self._line
        bars = [bar for bar in line.bars if bar.row == row]
        lanes = Lanes()
        places = [lanes.place(self._x(bar.began), self._x(bar.ended) + 1) for bar in bars]
        height = LABEL + max(lanes.count, 1) * LANE + LABEL
        self._lane(row, y, height)
        shelf = Shelf()
        for band in sorted(band for band in line.bands if band.row == row):
            left, right = self._x(band.began), self._x(band.ended)
            self._band(left, y + 1, right - left, height - 2)
            if (x := shelf.place(left + 4, wide(band.label), WIDTH - RIGHT)) is not None:
                self._text(x, y + 12, band.label, "edge small")
        self._middles[row] = y + LABEL + LANE / 2
        below = Shelf()
        for bar, lane in sorted(zip(bars, places, strict=True), key=lambda each: _short(each[0])):
            self._bar(bar, y + LABEL + lane * LANE, y + height - 3, below)
        return y + height + GAP

    def _bar(self, bar: Bar, y: float, under: float, below: Shelf) -> None:
        """A bar: full for as long as it had a right to, hatched for as long as it went on."""
        hue = self._hues[bar.row]
        left, right, end = self._x(bar.began), self._x(bar.until), self._x(bar.ended)
        if right > left:
            self._rect(left, y + 1, max(right - left, 1.5), LANE - 4, more=f' fill="{hue}"')
        if end > max(left, right):
            start = max(left, right)
            more = f' fill="url(#late)" stroke="{hue}" stroke-width="1.2"'
            self._rect(start, y + 1, max(end - start, 1.5), LANE - 4, more=more)
        words = str(bar.number)
        if right - left > wide(words) + 6:
            self._text((left + right) / 2, y + 12, words, "in", "middle")
        elif (x := below.place(left - 1, wide(words), WIDTH - RIGHT)) is not None:
            self._text(x, under, words, "soft small")

    def _resource(self, label: str, dots: list[Dot], y: float) -> float:
        self._lane(label, y, RESOURCE)
        middle = y + RESOURCE - 12
        shelf = Shelf()
        for dot in sorted(dots, key=lambda dot: (not dot.stale, dot.at)):
            words = f"{dot.number}{' refused' if dot.fenced else ' stale'}" if dot.stale else ""
            words = words or str(dot.number)
            kind = "bad small" if dot.stale else "soft small"
            x = self._x(dot.at)
            if (at := shelf.place(x - 4, wide(words), WIDTH - RIGHT)) is not None:
                self._text(at, y + 14, words, kind)
        for dot in sorted(dots, key=lambda dot: dot.stale):
            x, hue = self._x(dot.at), self._hues.get(dot.row, HUES[0])
            if dot.stale and dot.fenced:
                self._parts.append(
                    f'<path d="M{x - 4:.1f} {middle - 4:.1f}l8 8m0 -8l-8 8" fill="none" '
                    'class="bad" stroke-width="2.2" stroke-linecap="round"/>'
                )
            else:
                ring = ' class="bad" stroke-width="2.2"' if dot.stale else ""
                self._parts.append(
                    f'<circle cx="{x:.1f}" cy="{middle:.1f}" r="{4.5 if dot.stale else 3.5}" '
                    f'fill="{hue}"{ring}/>'
                )
        return y + RESOURCE + GAP

    def _ties(self, floor: float) -> list[str]:
        """Tie each stale write to the row of its writer."""
        return [
            f'<line x1="{x:.1f}" y1="{self._middles[dot.row]:.1f}" x2="{x:.1f}" '
            f'y2="{floor + RESOURCE - 16:.1f}" class="bad" stroke-width="1" '
            'stroke-dasharray="2 3"/>'
            for dot in self._line.dots
            if dot.stale and dot.fenced and dot.row in self._middles
            for x in [self._x(dot.at)]
        ]

    # --- around -------------------------------------------------------------------------------

    def _grid(self, bottom: float) -> list[str]:
        step = 0.5 if self._line.seconds <= 5 else 1.0
        found = []
        for i in range(int(self._line.seconds / step) + 1):
            x = self._x(i * step)
            found.append(
                f'<line x1="{x:.1f}" y1="{TOP - 4}" x2="{x:.1f}" y2="{bottom:.1f}" '
                'class="line" stroke-width="1"/>'
            )
            found.append(
                f'<text x="{x:.1f}" y="{bottom + 14:.1f}" class="soft small" '
                f'text-anchor="middle">{i * step:g} s</text>'
            )
        return found

    def _legend(self, y: float) -> float:
        x = float(LEFT)
        hue = HUES[0]
        for shape, words in LEGEND:
            room = 24 + wide(words) + 18
            if x + room > WIDTH - RIGHT:
                x, y = float(LEFT), y + 20
            self._parts.append(
                f'<g transform="translate({x:.1f} {y:.1f})">{shape.format(hue=hue)}</g>'
            )
            self._text(x + 24, y + 4, words, "small")
            x += room
        return y + 20


def _short(bar: Bar) -> float:
    """The longest first: they get their words."""
    return bar.began - bar.ended


_HATCH = (
    '<defs><pattern id="late" width="5" height="5" patternUnits="userSpaceOnUse" '
    'patternTransform="rotate(45)"><rect width="5" height="5" class="back"/>'
    '<rect width="2" height="5" class="hatch"/></pattern></defs>'
)
