"""The options in a URL of the service."""

from __future__ import annotations

import pytest

from lockfast.engines.remote.url import address_of
from lockfast.url import parse


@pytest.mark.parametrize(("written", "seconds"), [("", 0.0), ("?on_disconnect=2.5", 2.5)])
def test_the_end_of_locks_with_their_connection(written: str, seconds: float) -> None:
    assert address_of(parse(f"lockfast://h{written}")).on_disconnect == seconds


@pytest.mark.parametrize("written", ["0", "0.9", "61", "-2", "nan", "inf", "soon", ""])
def test_an_impossible_time_is_named(written: str) -> None:
    with pytest.raises(ValueError, match="on_disconnect must be 1 to 60 seconds, not '"):
        address_of(parse(f"lockfast://h?on_disconnect={written}"))
