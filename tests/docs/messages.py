"""The texts that lockfast can print, read from its source, to compare pages with."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).parents[2] / "src" / "lockfast"
LOUD = {"warning", "error", "exception"}
"""Levels that are shown if a program configures no logging."""
FIELD = re.compile(r"%(?:\.\d+)?[srdgf]")
TELLING = 10
"""Literal characters that a text needs. Others, such as `{a}: {b}`, would match anything."""


class Text(NamedTuple):
    """A text of the source, with a pattern for what it looks like when it is printed."""

    where: str
    pattern: re.Pattern[str]
    logged: bool

    def is_in(self, message: str) -> bool:
        """Tell whether the message is this text, with something in place of its fields."""
        return self.pattern.fullmatch(message) is not None


@cache
def texts() -> list[Text]:
    """Read all texts of the source, but for its tests."""
    paths = [path for path in SOURCE.rglob("*.py") if "testing" not in path.parts]
    return [text for path in sorted(paths) for text in _texts(path)]


def _texts(path: Path) -> Iterator[Text]:
    tree = ast.parse(path.read_text("utf-8"))
    logs = {id(text) for call in ast.walk(tree) if (text := _logged(call)) is not None}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr | ast.Constant | ast.BinOp):
            pattern, literal = _pattern(node)
            if literal >= TELLING:
                where = f"{path.relative_to(SOURCE)}:{node.lineno}"
                yield Text(where, re.compile(pattern), id(node) in logs)


def _logged(call: ast.AST) -> ast.expr | None:
    """Give the text of a call such as `log.warning(text, ...)`."""
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.args:
        to = call.func.value
        if isinstance(to, ast.Name) and to.id == "log" and call.func.attr in LOUD:
            return call.args[0]
    return None


def _pattern(node: ast.AST) -> tuple[str, int]:
    """Give a pattern for a text, and how many of its characters are literal."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        plain = FIELD.split(node.value.rstrip("\n"))
        return ".+?".join(map(re.escape, plain)), sum(map(len, plain))
    if isinstance(node, ast.JoinedStr):
        parts = [_pattern(each) for each in node.values]
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        parts = [_pattern(node.left), _pattern(node.right)]
    else:
        return ".*", 0
    return "".join(pattern for pattern, _ in parts), sum(length for _, length in parts)
