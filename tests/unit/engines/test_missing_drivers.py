"""Who imports `install` of an engine without its driver learns what to install."""

from __future__ import annotations

import sys
from importlib import import_module

import pytest

import lockfast


@pytest.mark.parametrize(
    ("engine", "driver", "scheme"),
    [("mysql", "pymysql", "mysql"), ("postgres", "psycopg", "postgresql")],
)
def test_a_driver_that_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, engine: str, driver: str, scheme: str
) -> None:
    for module in [name for name in sys.modules if name.startswith(f"lockfast.engines.{engine}")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, driver, None)
    said = f"the engine of {scheme}:// needs {driver}: pip install 'lockfast[{engine}]'"
    with pytest.raises(ImportError) as caught:
        import_module(f"lockfast.engines.{engine}")
    assert str(caught.value) == said
    with pytest.raises(ImportError) as caught:
        lockfast.connect(f"{scheme}://localhost/app")
    assert str(caught.value) == said
