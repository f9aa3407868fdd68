"""The controls themselves. `python -m tests.robustness controls` runs all, here is the quickest."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.robustness.checkers import rightful
from tests.robustness.controls import rules, texts
from tests.robustness.controls.catalogue import CONTROLS
from tests.robustness.controls.patches import PATCHES
from tests.robustness.controls.run import SIMULATED, in_the_harness
from tests.robustness.history import Kind, Outcome, Record
from tests.robustness.simulation import batched, replicas
from tests.robustness.simulation.mutants import MUTANTS
from tests.robustness.traffic.process import ROOT

QUICKEST = next(each for each in CONTROLS if each.mutant == "mark without the claim's id")
SWITCH = """
from tests.robustness.controls.worker import switched_in
switched_in()
from lockfast.engines.redis.scripts import RESIGN
from lockfast.engines.redlock.messages import JOIN
from lockfast.guards.redis.guard import _SCRIPT
from lockfast.port import Shape
print(b"if false then" in RESIGN.source, b"gone = 1e9" in JOIN.source,
      "above(current, token) then" in _SCRIPT, Shape("a", 1.0).wait_ttl)
"""


@pytest.mark.parametrize("mutant", texts.EDITS)
def test_the_text_that_a_mutant_replaces_is_still_there(mutant: str) -> None:
    texts.check([mutant])


def test_a_text_that_is_not_there_is_an_error() -> None:
    with pytest.raises(texts.Rotten, match="is not once in resign"):
        texts.edited(["no tombstone in doubt"], texts.REDIS, "resign.lua", "return 1")


def test_every_control_has_its_mutant() -> None:
    known = {"", *texts.EDITS, *PATCHES}
    assert {name for each in CONTROLS for name in (each.mutant, *each.given)} <= known
    assert known - {name for each in CONTROLS for name in (each.mutant, *each.given)} == set()
    assert set(SIMULATED) <= {*MUTANTS, *batched.MUTANTS, *replicas.MUTANTS}


def test_the_rules_of_the_procedures_are_among_the_controls() -> None:
    known = rules.rules()
    assert "test_batches_that_are_sorted_do_not_deadlock" in known
    assert "test_a_user_cannot_mint_tokens_of_the_future" in known
    assert "test_no_token_reaches_the_limit" not in known  # it takes none away


def test_a_rule_that_is_not_missed_is_told() -> None:
    (passed,) = rules.try_all(["test_a_user_cannot_mint_tokens_of_the_future"])
    assert (passed.cases, passed.failed) == (1, "")
    (unknown,) = rules.try_all(["test_that_is_not_there"])
    assert (unknown.cases, unknown.failed) == (0, "it did not run")


def test_mutants_are_switched_in_before_the_code_is_read() -> None:
    names = [
        *("no tombstone in doubt", "a wiped node that joins at once"),
        *("mark without the claim's id", "short waits"),
    ]
    env = {"LOCKFAST_MUTANT": ";".join(names), "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    argv = [sys.executable, "-c", SWITCH]
    said = subprocess.run(argv, env=env, capture_output=True, text=True, check=True, timeout=60)
    assert said.stdout == "True True True 0.4\n"


@pytest.mark.timeout(180)
def test_nothing_is_said_without_the_mutant() -> None:
    verdict = in_the_harness(QUICKEST, 0.0, mutated=False)
    assert (verdict.said, verdict.failed) == ("", "")
    assert verdict.rounds == 1


def test_a_rightful_holder_that_is_refused_is_told() -> None:
    grant = Record("a", Kind.ACQUIRE, "x", 0.0, 0.1, Outcome.OK, 5, "id", until=1.0)
    late = Record("a", Kind.WRITE, "x", 0.9, 1.1, Outcome.NO, 5, "id")
    early = Record("a", Kind.SEAL, "x", 0.4, 0.5, Outcome.NO, 5, "id")
    assert rightful([grant, late]) == []
    (violation,) = rightful([grant, early])
    assert violation.said == "x: a was refused with token 5, and held it for 0.500 s more"


def test_a_holder_that_renewed_is_rightful_until_its_last_renewal_ends() -> None:
    grant = Record("a", Kind.ACQUIRE, "x", 0.0, 0.1, Outcome.OK, 5, "id", until=1.0)
    write = Record("a", Kind.WRITE, "x", 1.2, 1.3, Outcome.NO, 5, "id")
    lost = Record("a", Kind.LOST, "x", 1.31, 1.31, Outcome.OK, 5, "id", until=1.8)
    assert len(rightful([grant, write, lost])) == 1


def test_only_a_holder_that_was_told_before_its_write_is_not_rightful_any_more() -> None:
    grant = Record("a", Kind.ACQUIRE, "x", 0.0, 0.1, Outcome.OK, 5, "id", until=1.8)
    write = Record("a", Kind.WRITE, "x", 1.2, 1.3, Outcome.NO, 5, "id")

    def lost(value: str, at: float) -> Record:
        return Record("a", Kind.LOST, "x", at, at, Outcome.OK, 5, "id", value=value, until=1.8)

    assert rightful([grant, lost("GONE", 1.1), write]) == []
    assert len(rightful([grant, write, lost("GONE", 1.25)])) == 1  # while it was under way
    # The guard's refusal is told as a loss before the write has returned.
    assert len(rightful([grant, write, lost("FENCED", 1.25)])) == 1
    assert len(rightful([grant, lost("UNREACHABLE", 1.1), write])) == 1
