"""Options that several engines have."""

from __future__ import annotations

import re

import pytest

import lockfast

HOSTS = [
    "redis://h",
    "redlock://h1,h2,h3",
    "postgresql://h/app",
    "mysql://u@h/app",
    "etcd://h",
    "zookeeper://h",
]


@pytest.mark.parametrize("base", ["", "-1", "1e3", "x", "\u0661", str(2**52), "9" * 99])
@pytest.mark.parametrize("host", HOSTS)
def test_a_token_base_that_is_no_number_is_refused_in_words(host: str, base: str) -> None:
    said = re.escape("token_base must be a whole number below 2**52, not")
    with pytest.raises(ValueError, match=said):
        lockfast.connect(f"{host}?token_base={base}")
