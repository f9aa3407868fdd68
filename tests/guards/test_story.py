"""The story itself: a register that keeps the rule passes, one that does not is found out."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lockfast.guards.mark import Mark, Shown, admit, shown
from lockfast.primitives.lease import LeaseCore
from tests.guards import story
from tests.servers import Redis


class Register:
    """A file with a mark and a value, for processes of one machine that all play by the rule."""

    def __init__(self, where: str) -> None:
        self._path = Path(where)

    @contextmanager
    def _open(self) -> Iterator[dict[str, Any]]:
        with self._path.open("a+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            state = json.loads(file.read() or '{"mark": null, "value": ""}')
            yield state
            file.truncate(0)
            json.dump(state, file)

    def _admit(self, state: dict[str, Any], at: Shown) -> None:
        state["mark"] = admit(Mark(*state["mark"]) if state["mark"] else None, at)

    def seal(self, lease: LeaseCore) -> None:
        with self._open() as state:
            self._admit(state, shown(lease))

    def read(self, lease: LeaseCore) -> str:  # noqa: ARG002  # the story's
        with self._open() as state:
            return str(state["value"])

    def write(self, lease: LeaseCore, value: str) -> None:
        with self._open() as state:
            self._admit(state, shown(lease))
            state["value"] = value

    def write_bare(self, lease: LeaseCore, value: str) -> None:  # noqa: ARG002  # the story's
        with self._open() as state:
            state["value"] = value

    def close(self) -> None:
        """Nothing is open."""


class AsyncRegister:
    """The same for asyncio."""

    def __init__(self, where: str) -> None:
        self._register = Register(where)

    async def seal(self, lease: LeaseCore) -> None:
        self._register.seal(lease)

    async def read(self, lease: LeaseCore) -> str:
        return self._register.read(lease)

    async def write(self, lease: LeaseCore, value: str) -> None:
        self._register.write(lease, value)

    async def write_bare(self, lease: LeaseCore, value: str) -> None:
        self._register.write_bare(lease, value)

    async def close(self) -> None:
        """Nothing is open."""


class Careless(Register):
    """One that looks at no mark."""

    def _admit(self, state: dict[str, Any], at: Shown) -> None:
        """Let everybody in."""


@pytest.mark.parametrize("register", [Register, AsyncRegister])
def test_a_register_that_keeps_the_rule_refuses_the_paused_holder(
    redis: Redis, tmp_path: Path, register: type[story.Resource]
) -> None:
    story.refused(redis.url, register, str(tmp_path / "register"), register.__name__)


def test_a_register_that_does_not_is_found_out(redis: Redis, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="was not refused"):
        story.refused(redis.url, Careless, str(tmp_path / "register"), "careless")


def test_without_a_guard_the_paused_holder_overwrites(redis: Redis, tmp_path: Path) -> None:
    story.corrupted(redis.url, Register, str(tmp_path / "register"), "bare")
