"""Broken ways of building Redlock, switched in for a while: each must break a rule in some run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from lockfast.core.ballot import Ballot
from tests.robustness.simulation import node

_init, _compiled = Ballot.__init__, node.compiled

EDITS = {
    "acceptance below the mark": ("if token <= highest then", "if false then"),
}
"""What is replaced in the programs that run inside each node."""
FOUND = {
    "a ballot without the majority": 0,
    "acceptance below the mark": 5,
}
"""The seed from which on each is found soon: tests need not search for long. A wiped node that
joins at once is not found in a hundred: it is caught on real servers, in tests/robustness/controls.
"""
MUTANTS = tuple(FOUND)


def _ballot_of_one(self: Ballot, nodes: int) -> None:
    """Be content with the first node that accepts."""
    _init(self, nodes)
    self.quorum = 1


@contextmanager
def switched_in(name: str) -> Iterator[None]:
    """Build it that way for a while."""
    if name not in EDITS:
        with patch.object(Ballot, "__init__", _ballot_of_one):
            yield
        return
    old, new = (text.encode() for text in EDITS[name])
    found: set[bytes] = set()

    def compiled(source: bytes) -> Callable[..., Any]:
        if old in source:
            found.add(source)
        return _compiled(source.replace(old, new))

    with patch.object(node, "compiled", compiled):
        yield
    assert found, f"{name}: {EDITS[name][0]!r} is in no program"
