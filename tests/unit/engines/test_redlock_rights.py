"""A Redlock node that lacks rights: every error names those of Redlock, not those of Redis."""

from __future__ import annotations

from collections.abc import Callable

import hiredis
import pytest

from lockfast.engines.redis.transport import Address
from lockfast.engines.redlock.attempt import problem
from lockfast.engines.redlock.transport import Introduction

HERE = Address("h", 6379)
NOPERM = hiredis.ReplyError("NOPERM User app has no permissions to run the 'script' command")


def script() -> str:
    return str(problem(NOPERM, HERE))


def login() -> str:
    with pytest.raises(Exception, match="NOPERM") as caught:
        Introduction().welcome(HERE, [NOPERM], 5.0)
    return str(caught.value)


@pytest.mark.parametrize("failed", [script, login])
def test_the_hint_names_the_rights_of_redlock(failed: Callable[[], str]) -> None:
    hint = failed()
    for right in ("~lockfast:redlock:*", "+script", "+psetex", "+setrange", "+exists"):
        assert right in hint.split()
