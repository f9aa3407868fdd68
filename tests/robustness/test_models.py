"""The models, as far as they take a second each. `make models` checks all of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from spec.tlc import HERE, HOLDS, Configuration, check, configurations

QUICK = [each for each in configurations() if each.model in {"Expiry", "Guard"}]
MODELS = {path.stem for path in HERE.glob("*.tla")}


@pytest.mark.parametrize("configuration", QUICK, ids=lambda each: each.path.stem)
def test_a_model_comes_out_as_it_says(configuration: Configuration) -> None:
    found = check(configuration)
    assert found.verdict == configuration.expected, found.output


@pytest.mark.parametrize("model", sorted(MODELS))
def test_every_model_says_what_holds_and_what_is_refuted(model: str) -> None:
    expected = {each.expected == HOLDS for each in configurations() if each.model == model}
    assert expected == {True, False}


def test_a_refutation_that_does_not_come_fails_the_run(tmp_path: Path) -> None:
    """And the other way round: both are surprises."""
    for path in HERE.glob("*.*"):
        (tmp_path / "spec").mkdir(exist_ok=True)
        (tmp_path / "spec" / path.name).write_bytes(path.read_bytes())
    holds, refuted = (tmp_path / "spec" / f"Guard-{x}.cfg" for x in ("as-built", "unsealed"))
    text = holds.read_text()
    holds.write_text(text.replace("\\* holds", "\\* refuted: NoLostUpdate"))
    refuted.write_text(refuted.read_text().replace("\\* refuted: NoLostUpdate", "\\* holds"))
    run = subprocess.run(
        [sys.executable, "-m", "spec", "Guard-as-built", "Guard-unsealed"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 1, run.stdout + run.stderr
    assert "FOUND holds" in run.stdout
    assert "FOUND refuted: NoLostUpdate" in run.stdout
    assert "2 surprises" in run.stdout
