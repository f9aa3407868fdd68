"""The page on error messages has an entry for each of them, and no entry without one."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import lockfast
from lockfast.cli.exit_codes import Code
from lockfast.errors import EngineError, LockfastError
from tests.docs.messages import texts

PAGE = Path(__file__).parents[2] / "docs" / "troubleshooting.md"
ENTRY = re.compile(r"^\((?P<anchor>[^)\n]+)\)=\n#+ (?P<title>.+)\n", re.MULTILINE)
SHOWN = re.compile(r"^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BASES: set[type[LockfastError]] = {LockfastError, EngineError}
"""These are caught and never raised."""


class Entry(NamedTuple):
    """One entry of the page."""

    anchor: str
    title: str
    text: str

    def messages(self) -> list[str]:
        """The messages that it shows, each in one line."""
        return [" ".join(block.split()) for block in SHOWN.findall(self.text)]


def printed(message: str) -> bool:
    """Tell whether the source has this text, perhaps with what `say` and `str()` add to it."""
    bare = re.sub(r" \(see: [^ ()]+\)$", "", message)
    ways = {each.removeprefix("lockfast: ") for each in (message, bare)} | {message, bare}
    return any(text.is_in(each) for each in ways for text in texts())


def entries() -> list[Entry]:
    text = PAGE.read_text("utf-8")
    found = list(ENTRY.finditer(text))
    ends = [each.start() for each in found[1:]] + [len(text)]
    return [
        Entry(each["anchor"], each["title"], text[each.end() : end])
        for each, end in zip(found, ends, strict=True)
    ]


ENTRIES = {entry.anchor: entry for entry in entries()}


def classes(base: type[LockfastError] = LockfastError) -> Iterator[type[LockfastError]]:
    yield base
    for each in base.__subclasses__():
        if each.__module__.startswith("lockfast."):
            yield from classes(each)


@pytest.fixture(scope="module")
def errors() -> set[type[LockfastError]]:
    for module in pkgutil.walk_packages(lockfast.__path__, "lockfast."):
        # A Django project alone can import the scheduler for django-celery-beat.
        left_out = (".testing", "__main__", ".integrations.celery.database")
        if not any(each in module.name for each in left_out):
            importlib.import_module(module.name)
    return set(classes())


def test_no_two_entries_have_the_same_anchor() -> None:
    assert len(ENTRIES) == len(entries()) > 40


def test_every_exception_has_an_entry(errors: set[type[LockfastError]]) -> None:
    assert {each.anchor for each in errors} <= set(ENTRIES)


def test_every_public_exception_has_an_entry_of_its_own(errors: set[type[LockfastError]]) -> None:
    exported = {each for name in lockfast.__all__ if (each := getattr(lockfast, name)) in errors}
    exported |= {each for each in errors if each.__name__ in {"PartlyApplied", "Misconfigured"}}
    assert len(exported) == 15
    for each in exported:
        words = re.findall("[A-Z][a-z]+", each.__name__)
        assert each.anchor == "-".join(words).lower()
        assert each.__name__ in ENTRIES[each.anchor].title


def test_an_entry_shows_a_message_of_its_own_exception(errors: set[type[LockfastError]]) -> None:
    for each in errors - BASES:
        shown = ENTRIES[each.anchor].messages()
        assert any(message.endswith(f" (see: {each.anchor})") for message in shown), each


def test_the_entry_names_no_other_anchor() -> None:
    for entry in ENTRIES.values():
        assert set(re.findall(r"\(see:\s([^ ()]+)\)", entry.text)) <= set(ENTRIES)


def test_every_reason_of_a_loss_is_explained() -> None:
    for reason in lockfast.Loss:
        assert f"| `{reason.name}` | {reason.value} |" in ENTRIES["lease-lost"].text


def test_every_exit_code_has_an_entry() -> None:
    for code in set(Code) - {Code.DONE}:
        assert f"Exit code {code}" in ENTRIES[f"exit-{code}"].title


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=lambda entry: entry.anchor)
def test_lockfast_prints_what_an_entry_shows(entry: Entry) -> None:
    bases = {each.anchor for each in BASES}
    assert entry.messages() or entry.anchor in bases, "it shows no message"
    for message in entry.messages():
        assert printed(message), message


def test_every_warning_and_error_that_is_logged_has_an_entry() -> None:
    shown = [message for entry in ENTRIES.values() for message in entry.messages()]
    logged = [text for text in texts() if text.logged]
    assert len(logged) > 20
    missing = [text for text in logged if not any(map(text.is_in, shown))]
    assert not missing, missing
