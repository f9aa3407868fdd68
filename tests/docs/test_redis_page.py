"""What the page on Redis tells people to configure is enough, and no more than that is needed."""

from __future__ import annotations

from pathlib import Path

import lockfast
from tests.docs.rights import do_everything, documented_acl
from tests.servers import Redis

PAGE = Path(__file__).parents[2] / "docs" / "engines" / "redis.md"


def test_a_user_with_the_documented_permissions_can_do_everything() -> None:
    with Redis(username="locks", password="s3cret", acl=documented_acl(PAGE)) as server:  # noqa: S106  # a test's
        do_everything(server.url)


def test_the_token_base_lifts_every_new_token() -> None:
    base = 2_000_000_000_000_000
    with Redis() as server:
        with lockfast.connect(server.url) as client, client.lock("x") as lease:
            before = lease.token
        with (
            lockfast.connect(f"{server.url}?token_base={base}") as client,
            client.lock("x") as lease,
        ):
            moved = lease.token
        with lockfast.connect(server.url) as client, client.lock("x") as lease:
            after = lease.token  # a client that was forgotten in the move mints no lower token
    assert moved >= before + base - 1_000_000
    assert after > moved


def test_grants_survive_a_restart_that_keeps_the_data() -> None:
    with Redis(appendonly=True, config={"appendfsync": "always"}) as server:
        with lockfast.connect(server.url) as client, client.lock("x", ttl=5) as lease:
            server.kill()
            server.start()
            assert client.lock("x").try_acquire() is None
            assert not lease.wait_lost(3.0)
            before = lease.token
        with lockfast.connect(server.url) as client, client.lock("x") as lease:
            assert lease.token > before
