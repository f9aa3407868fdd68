"""The rules of the procedures on MariaDB, each taken away in a copy: a test must miss it."""

from __future__ import annotations

import ast
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

from tests.robustness.traffic.process import ROOT

FILE = Path("tests/contract/test_mysql_rules.py")
PATIENCE = 600.0  # seconds for all: twice what they need on two cores that do much else


def rules() -> list[str]:
    """Tell the tests that take a rule away, and must fail without it."""
    tests = [
        node
        for node in ast.parse((ROOT / FILE).read_text("utf-8")).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]
    # Most say so to `holds`. One sends batches that are not sorted, which is a rule of the client.
    words = ("holds(server", "sort=False")
    return [test.name for test in tests if any(word in ast.unparse(test) for word in words)]


@dataclass(frozen=True)
class Missed:
    """What came of one rule."""

    test: str
    cases: int
    seconds: float
    failed: str = ""
    """Why it was not missed, or could not be tried."""


def try_all(names: Sequence[str]) -> list[Missed]:
    """Run some of these tests, in one process and on one server."""
    if not names:
        return []
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "told.xml"
        argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
        tests = [f"{FILE}::{name}" for name in names]
        subprocess.run(
            [*argv, f"--junitxml={told}", *tests],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=PATIENCE,
            check=False,
        )
        cases = list(ET.parse(told).iter("testcase")) if told.exists() else []  # noqa: S314  # ours
    return [_missed(name, cases) for name in names]


def _missed(test: str, among: list[ET.Element]) -> Missed:
    cases = [case for case in among if case.get("name", "").partition("[")[0] == test]
    wrong = [child.get("message", child.tag) for case in cases for child in case]
    failed = "; ".join(wrong) if cases else "it did not run"
    return Missed(test, len(cases), sum(float(case.get("time", 0)) for case in cases), failed)
