"""Text that a server cannot store is refused at the door, with a sentence and nothing sent."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import lockfast

HALF = "tmp/\udcff"  # as os.listdir() returns a file name that is not UTF-8


@pytest.mark.parametrize(
    ("use", "what"),
    [
        (lambda client: client.lock(HALF), "a lock's name"),
        (lambda client: client.breaks(HALF), "a lock's name"),
        (lambda client: client.inspect(HALF), "a prefix"),
        (lambda client: client.election("x").campaign(HALF), "a leader's value"),
    ],
)
def test_half_a_character_is_named(use: Callable[[lockfast.Client], object], what: str) -> None:
    with (
        lockfast.connect("redis://127.0.0.1:1") as client,
        pytest.raises(ValueError, match=rf"^{what} must be valid Unicode text: 'tmp/\\udcff'$"),
    ):
        use(client)
