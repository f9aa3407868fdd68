"""SQLAlchemy: a lock and a guard around a session, in real processes on a real database."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integrations.migrating import Place, place


@pytest.fixture(scope="module")
def accounts() -> Iterator[Place]:
    with place("sqlalchemy") as accounts:
        run(accounts, "accounts.py", "setup")
        yield accounts


def run(accounts: Place, *argv: str) -> str:
    return accounts.ended([accounts.start(*argv)])[0]


def test_three_that_deposit_at_once_do_so_one_after_another(accounts: Place) -> None:
    said = accounts.all_at_once("account:7", "accounts.py", "7", "10")
    assert sorted(said) == ["balance: 10\n", "balance: 20\n", "balance: 30\n"]


def test_a_session_of_an_earlier_holder_is_rejected_as_a_whole(accounts: Place) -> None:
    before = int(run(accounts, "accounts.py", "1", "5").split()[-1])
    # A log message of the client's own thread may come between the words of a line, but not here.
    assert "the write to 'account:1' with token" in run(accounts, "stale.py")
    assert run(accounts, "accounts.py", "1", "0") == f"balance: {before + 10}\n"


def test_an_async_session_does_the_same(accounts: Place) -> None:
    before = int(run(accounts, "accounts.py", "1", "1").split()[-1])
    assert run(accounts, "async_accounts.py") == f"balance: {before + 5}\n"
