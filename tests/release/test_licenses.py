"""The page on licenses has those that the installed packages state."""

from __future__ import annotations

import re

from release.licenses import PAGE, TABLE, table

TEXT = PAGE.read_text("utf-8")


def test_the_table_is_that_of_the_packages() -> None:
    (found,) = TABLE.findall(TEXT)
    assert found == table(), "write it anew: .venv/bin/python -m release.licenses"


def test_each_package_with_a_license_that_asks_for_more_is_named_above_the_table() -> None:
    before = TEXT[: TEXT.index("| package |")]
    for name, stated in re.findall(r"^\| (\S+) \| (.*?) \|", table(), re.MULTILINE):
        assert stated != "not stated", name
        if "GPL" in stated:
            assert re.search(rf"\b{name.removesuffix('-binary')}\b", before), name
