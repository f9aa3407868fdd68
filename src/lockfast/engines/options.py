"""URL options that several engines share."""

from __future__ import annotations

import re
from collections.abc import Mapping

# Tokens stay below 2**53. The base may take up one half, and what an engine counts the other.
HIGHEST = 2**52


def base_of(options: Mapping[str, str]) -> int:
    """Return the option `token_base`, which an engine adds to every new token. The default is 0."""
    text = options.get("token_base", "0")
    if not re.fullmatch("[0-9]{1,16}", text) or int(text) >= HIGHEST:
        raise ValueError(f"token_base must be a whole number below 2**52, not {text!r}")
    return int(text)
