"""What PostgreSQL's refusals tell the reader to do, and whom they concern."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from lockfast.engines.postgres.connection import GRANT, INSTALL, failed
from lockfast.engines.sql import singly
from lockfast.errors import EngineRefused, EngineUnavailable
from lockfast.port import Ask, Shape
from lockfast.runtime.drive import drive

SCHEMA = "permission denied for schema lockfast"
STRANGE = "the claim 4f was made by role app: other may not end it"


@pytest.mark.parametrize(
    ("code", "text", "hint"),
    [
        ("42501", SCHEMA, f"{SCHEMA} [42501] ({GRANT})"),
        ("42501", STRANGE, f"{STRANGE} [42501]"),
        ("3F000", 'schema "lockfast" does not exist', f"[3F000] ({INSTALL})"),
    ],
)
def test_a_refusal_says_what_to_do(code: str, text: str, hint: str) -> None:
    error = failed(code, text, "localhost/app")
    assert isinstance(error, EngineRefused)
    assert error.message.endswith(hint)


def test_a_claim_for_which_no_time_was_left_is_not_refused() -> None:
    """Its neighbour was, and its caller would not try again after a refusal."""
    asks = [Ask(f"{n:032x}", Shape("x", 30.0), True, 10.0, b"") for n in range(3)]  # noqa: FBT003  # as the port has it
    clock = 0.0

    async def resign(some: Sequence[Ask]) -> list[bool]:
        nonlocal clock
        clock += 1.0
        if asks[0] in some:
            raise EngineRefused(STRANGE)
        return [True for _ in some]

    first, second, third = drive(singly.resigned(resign, asks, 2.5, lambda: clock))
    assert isinstance(first, EngineRefused)
    assert second is True
    assert isinstance(third, EngineUnavailable)
    assert not third.sent
    assert STRANGE in str(third)
