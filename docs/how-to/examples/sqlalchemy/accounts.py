import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, sessionmaker

import lockfast
from lockfast.guards import sqlalchemy as guard
from lockfast.guards.postgres import install

client = lockfast.connect(os.environ.get("REDIS_URL", "redis://localhost:6379"))
engine = create_engine("postgresql+psycopg://localhost/app")
sessions = sessionmaker(engine)


class Base(DeclarativeBase):
    pass


class Account(Base):
    __tablename__ = "account"
    id: Mapped[int] = mapped_column(primary_key=True)
    balance: Mapped[int]


@contextmanager
def locked_session(name: str) -> Iterator[Session]:
    """Hold the lock, and run the block in one transaction of a new session."""
    with client.lock(name, ttl=30, timeout=30) as lease, sessions() as session:
        guard.seal(session, lease)  # before the first read
        with guard.transaction(session, lease):  # commits before the lock is released
            yield session


def deposit(account_id: int, amount: int) -> int:
    with locked_session(f"account:{account_id}") as session:
        account = session.get(Account, account_id)
        if account is None:
            account = Account(id=account_id, balance=0)
            session.add(account)
        account.balance += amount
        return account.balance


if __name__ == "__main__":
    if sys.argv[1] == "setup":
        install("postgresql://localhost/app")  # the guard's schema
        Base.metadata.create_all(engine)
    else:
        print("balance:", deposit(int(sys.argv[1]), int(sys.argv[2])))
