"""Engines of other packages: found by their entry point, given to `connect`, or refused."""

from __future__ import annotations

import re
from importlib.metadata import EntryPoint

import pytest

import lockfast
from lockfast import aio, engines
from lockfast.engines.memory import Memory, MemoryEngine
from lockfast.port import PORT
from lockfast.runtime.aio import Aio
from lockfast.runtime.threads import Threads
from lockfast.url import Target


class Engine(MemoryEngine):
    port = PORT

    def __init__(self, target: Target | None, runtime: Threads | Aio) -> None:
        super().__init__(Memory(), runtime.bell())
        self.target = target


def test_a_client_takes_a_factory_without_a_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCKFAST_URL", "redis://never.asked")
    with lockfast.connect(engine=Engine) as client:
        with client.lock("x") as lease:
            assert lease.token
        assert client._session.engine.target is None  # type: ignore[attr-defined]  # ours


def test_a_factory_gets_the_url() -> None:
    with lockfast.connect("mine://host/path", engine=Engine) as client:
        client.lock("x").acquire().release()
        assert client._session.engine.target.path == "/path"  # type: ignore[attr-defined]  # ours


@pytest.mark.parametrize("connect", [lockfast.connect, aio.connect])
def test_a_factory_for_another_port_is_refused_with_both_numbers(connect: object) -> None:
    class Later(Engine):
        port = PORT + 1

    said = f"engine= is written for number {PORT + 1} .* has number {PORT}"
    with pytest.raises(ValueError, match=said):
        connect(engine=Later)  # type: ignore[operator]


@pytest.mark.parametrize("value", ["lockfast.port:Nobody", "lockfast.port:PORT", "no_such:thing"])
def test_a_package_whose_factory_cannot_be_used_is_named(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    entry = EntryPoint("broken", value, engines.GROUP)
    monkeypatch.setattr(engines, "entry_points", lambda **_: [entry])
    with pytest.raises(ImportError, match=r"broken|no_such"):
        lockfast.connect("broken://x")


@pytest.mark.parametrize("wrong", [MemoryEngine, object(), "redis"])
def test_a_factory_without_a_number_is_refused(wrong: object) -> None:
    with pytest.raises(TypeError, match=re.escape("a callable with the attribute port")):
        lockfast.connect(engine=wrong)  # type: ignore[arg-type]
