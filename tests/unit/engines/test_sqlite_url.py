"""URLs of SQLite: which file they name, and which are refused."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import lockfast
from lockfast.engines.sqlite.url import path_of
from lockfast.url import parse


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:////var/lib/app/locks.db", "/var/lib/app/locks.db"),
        ("sqlite:////srv/a%20b%3Fc%40d.db", "/srv/a b?c@d.db"),
        ("sqlite:////srv/locks.db?token_base=5", "/srv/locks.db"),
        ("sqlite:////srv/100%25.db", "/srv/100%.db"),
    ],
)
def test_four_slashes_name_an_absolute_path(url: str, path: str) -> None:
    assert str(path_of(parse(url))) == path


def test_three_slashes_name_a_path_in_the_present_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    client = lockfast.connect("sqlite:///here/locks.db")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir("/")  # the client keeps the folder in which it was made
    with client, client.lock("x"):
        assert (tmp_path / "here" / "locks.db").exists()


@pytest.mark.parametrize(
    "url",
    [
        "sqlite://",
        "sqlite:///",
        "sqlite:///:memory:",
        "sqlite:///file::memory:",
        "sqlite:///file:x?mode=memory",
        "sqlite://locks.db",
        "sqlite://host/locks.db",
        "sqlite:////srv/a%00b.db",
        "sqlite:////srv/x.db?timeout=5",
    ],
)
def test_what_names_no_file_is_refused_with_a_hint(url: str) -> None:
    with pytest.raises(ValueError, match=r"sqlite:///|token_base"):
        lockfast.connect(url)


@pytest.mark.parametrize(
    "url",
    ["sqlite://:memory:", "sqlite:///:memory:", "sqlite:///file:x?mode=memory&cache=shared"],
)
def test_a_database_in_memory_is_refused_with_a_hint_to_the_memory_engine(url: str) -> None:
    with pytest.raises(ValueError, match=r"memory://.*sqlite:///relative\.db"):
        lockfast.connect(url)


def test_a_path_that_no_file_can_have_is_refused_at_once() -> None:
    """Half a surrogate pair, as JSON can contain it. `os.fsdecode` makes other ones, from bytes."""
    with pytest.raises(ValueError, match="cannot be the name of a file"):
        lockfast.connect("sqlite:////srv/\ud800.db")
    odd = os.fsdecode(b"/srv/\xff.db")
    assert os.fsencode(path_of(parse(f"sqlite:///{odd}"))) == b"/srv/\xff.db"


def test_a_python_without_sqlite_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.startswith("lockfast.engines.sqlite")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "sqlite3", None)
    with pytest.raises(ImportError, match="a module of Python itself"):
        lockfast.connect(f"sqlite:///{os.devnull}")
