"""Each change of the public API changes the record too, and is a line in the changelog."""

from __future__ import annotations

import pytest

import lockfast
from tests.api.record import changes, explained, recorded
from tests.api.surface import surface


def test_the_public_api_is_the_one_that_is_recorded() -> None:
    found = changes(recorded(), surface())
    assert not found, explained(found)


def test_a_removed_name_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(lockfast, "RLock")
    found = changes(recorded(), surface())
    assert "-class lockfast.RLock" in found
    assert "-lockfast.RLock.holders() -> list[Holder]" in found
    assert all(line.startswith("-") for line in found)
    assert "CHANGELOG.md" in explained(found)
    assert "-class lockfast.RLock\n" in explained(found)


def test_a_renamed_method_and_a_changed_parameter_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def try_acquire(self: object, wait: float) -> None:
        """Do something else."""

    try_acquire.__module__ = "lockfast.primitives.lock"  # the reference shows only what is ours
    before = surface()
    monkeypatch.setattr(lockfast.Lock, "try_acquire", try_acquire)
    assert changes(before, surface()) == [
        "-lockfast.Lock.try_acquire() -> L | None",
        "+lockfast.Lock.try_acquire(wait: float) -> None",
    ]
