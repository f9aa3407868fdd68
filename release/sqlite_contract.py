"""The contract on SQLite, as the author of an engine runs it, with nothing but the wheel."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest

from lockfast.testing import (
    BodyContract,
    ClientContract,
    PortContract,
    QueueShapeContract,
    ShapeContract,
    UrlBench,
)


class SqliteBench(UrlBench):
    """A file for each test."""

    def __init__(self, folder: Path) -> None:
        """Keep the files in this folder."""
        super().__init__("")
        self._folder = folder
        self.wipe()

    def wipe(self) -> None:
        """Use another file."""
        self.url = f"sqlite:///{self._folder}/{secrets.token_hex(8)}.db"


class MovedBench(SqliteBench):
    """The same, on a clock that the tests move: claims expire by the clock of this process."""

    def move(self, seconds: float) -> bool:
        """Say that the clock has moved: the test has moved this process's."""
        del seconds
        return True


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> SqliteBench:
    """Give the bench that the contracts use."""
    return SqliteBench(tmp_path_factory.mktemp("locks"))


class TestPort(PortContract):
    """What the engine must do."""

    @pytest.fixture
    def bench(self, tmp_path: Path) -> MovedBench:
        """Give a bench whose clock can be moved."""
        return MovedBench(tmp_path)


class TestClient(ClientContract):
    """What a client does with it."""


class TestShapes(ShapeContract):
    """Several locks at once, elections, decorators."""


class TestQueueShapes(QueueShapeContract):
    """Semaphores, read/write locks."""


class TestBodies(BodyContract):
    """What happens in a body when the lock is lost."""
