"""An engine in a package of its own: installed into an empty environment, and held to the contract.

The package is what CONTRIBUTING describes. `contract.py` is its own test. Of it only the half for
threads is run: it is the same engine in both.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.docs.empty import Wheelhouse
from tests.docs.page import ROOT

PACKAGE = Path(__file__).parent / "package"


@pytest.mark.timeout(600)
def test_an_engine_of_another_package_passes_the_contract(tmp_path: Path) -> None:
    house = Wheelhouse(ROOT / "build" / "package", ["lockfast[testing]"])
    house.build(PACKAGE)
    environment = house.environment(frozenset({"lockfast[testing]", "lockfast-example"}))
    shutil.copy(PACKAGE / "contract.py", tmp_path / "test_contract.py")
    done = subprocess.run(
        [
            environment / "bin" / "python",
            "-m",
            "pytest",
            "-q",
            "-k",
            "not asyncio",
            "test_contract.py",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
