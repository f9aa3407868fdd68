"""What PostgreSQL's refusals tell the reader to do."""

from __future__ import annotations

import pytest

from lockfast.engines.postgres.connection import GRANT, INSTALL, failed
from lockfast.errors import EngineRefused

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
