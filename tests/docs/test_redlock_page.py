"""What the page on Redlock tells people to configure is enough, and its tokens are as it says."""

from __future__ import annotations

from pathlib import Path

import pytest

import lockfast
from lockfast.engines.redlock import install, messages
from tests.docs.rights import do_everything, documented_acl
from tests.servers import Redis, RedlockSet, ServerClock, wait_until

PAGE = Path(__file__).parents[2] / "docs" / "engines" / "redlock.md"


def test_a_user_with_the_documented_permissions_can_do_everything() -> None:
    clock = ServerClock()
    acl = documented_acl(PAGE)
    nodes = [
        Redis(username="locks", password="s3cret", acl=acl, env=clock.env)  # noqa: S106  # a test's
        for _ in range(3)
    ]
    with RedlockSet(nodes) as servers, lockfast.connect(servers.url) as client:
        do_everything(servers.url)
        nodes[0].command("FLUSHALL")

        def noticed() -> bool:
            client.lock("x").acquire().release()
            return nodes[0].command("GET", messages.MEMBER) is not None

        wait_until(noticed, "it is noticed")
        clock.advance(60.0)
        wait_until(lambda: client.guarantees().findings == (), "it joins")


def test_the_token_base_lifts_every_new_token() -> None:
    base = 2_000_000_000_000_000
    with RedlockSet(3) as servers:
        with lockfast.connect(servers.url) as client, client.lock("x") as lease:
            before = lease.token
        with lockfast.connect(f"{servers.url}?token_base={base}") as client:
            lease = client.lock("x").acquire()
            moved = lease.token
            lease.release()
        with lockfast.connect(servers.url) as client, client.lock("x") as lease:
            after = lease.token  # a client that was forgotten in the move mints no lower token
        install(servers.url)  # it may stand in a deployment
    assert moved >= before + base - 1_000_000
    assert after > moved


@pytest.mark.parametrize("url", ["redlock://", "redlock://h1,h1,h2", "redlock://h1,h2,h3/x"])
def test_a_url_that_names_no_set_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"name each node once|has no database"):
        lockfast.connect(url)
