"""A small storm: a replica with all clients is killed, and each of them keeps what it has."""

from __future__ import annotations

import json

import pytest

from tests.robustness.storm import run


def test_a_fleet_survives_the_death_of_its_replica(capsys: pytest.CaptureFixture[str]) -> None:
    broken = run("replica", 300, 12.0, bool)
    figures = json.loads(capsys.readouterr().out)
    assert not broken, figures
    assert figures["clients"] == figures["connected"] == 300
    assert figures["waiters"] == figures["waiters_granted"] > 0
