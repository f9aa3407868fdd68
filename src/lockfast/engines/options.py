"""Options of URLs that several engines have."""

from __future__ import annotations

import re
from collections.abc import Mapping

HIGHEST = 2**52  # tokens stay below 2**53: one half is the base, the other is counted


def base_of(options: Mapping[str, str]) -> int:
    """Read `token_base`: what an engine adds to every new token."""
    text = options.get("token_base", "0")
    if not re.fullmatch("[0-9]{1,16}", text) or int(text) >= HIGHEST:
        raise ValueError(f"token_base is a whole number below 2**52, not {text!r}")
    return int(text)
