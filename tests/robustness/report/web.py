"""The page as one file of HTML, with its pictures inside."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping

from markdown_it import MarkdownIt

STYLE = """
:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif;
  max-width: 1000px; margin: 2rem auto; padding: 0 1rem; background: #ffffff; color: #1f2328 }
.wide { overflow-x: auto } img { max-width: 100%; height: auto }
table { border-collapse: collapse; font-size: 14px; margin: 1rem 0 }
th, td { border: 1px solid #d5dae0; padding: .3rem .6rem; vertical-align: top }
th { background: #f3f5f7; text-align: left } code { font-size: 87% }
@media (prefers-color-scheme: dark) { body { background: #0f1317; color: #e6edf3 }
  th, td { border-color: #3a424b } th { background: #1d232a } a { color: #6cb0f2 } }
""".strip()


def standalone(markdown: str, pictures: Mapping[str, str]) -> str:
    """Make it."""
    body = MarkdownIt("commonmark", {"html": False}).enable("table").render(markdown)
    body = body.replace("<table>", '<div class="wide"><table>').replace(
        "</table>", "</table></div>"
    )
    for name, svg in pictures.items():
        inside = base64.b64encode(svg.encode()).decode()
        body = body.replace(f'src="{name}"', f'src="data:image/svg+xml;base64,{inside}"')
    # What it links to is in the documentation, not here.
    body = re.sub(r'<a href="index\.md[^"]*">(.*?)</a>', r"\1", body)
    return (
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>lockfast: what was measured</title>\n<style>{STYLE}</style>\n{body}</html>\n"
    )
