"""One row in PostgreSQL, MariaDB or SQLite, behind SQLAlchemy's sessions."""

from __future__ import annotations

from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from lockfast.guards import sqlalchemy as guard
from lockfast.primitives.lease import LeaseCore


class Base(DeclarativeBase):
    """The tables."""


class Row(Base):
    """The row of the story."""

    __tablename__ = "register"
    id: Mapped[int] = mapped_column(primary_key=True)
    value: Mapped[str]


def url(where: str, mysql: str = "pymysql") -> str:
    """Say in SQLAlchemy's words where the database is, with this driver for MariaDB."""
    if where.startswith("mysql://"):
        return f"mysql+{mysql}://{where.partition('://')[2].replace('/lockfast', '/app')}"
    return where.replace("postgresql://", "postgresql+psycopg://")


class Mapper:
    """Guarded, through a Session."""

    def __init__(self, where: str) -> None:
        self._engine = create_engine(url(where))

    def seal(self, lease: LeaseCore) -> None:
        with Session(self._engine) as session:
            guard.seal(session, lease)

    def read(self, lease: LeaseCore) -> str:  # noqa: ARG002  # the story's
        with Session(self._engine) as session:
            return session.get_one(Row, 1).value

    def write(self, lease: LeaseCore, value: str) -> None:
        with Session(self._engine) as session, guard.transaction(session, lease):
            session.get_one(Row, 1).value = value

    def write_bare(self, lease: LeaseCore, value: str) -> None:  # noqa: ARG002  # the story's
        with Session(self._engine) as session, session.begin():
            session.get_one(Row, 1).value = value

    def close(self) -> None:
        self._engine.dispose()


class AsyncMapper:
    """Guarded, through an AsyncSession."""

    def __init__(self, where: str) -> None:
        self._engine = create_async_engine(url(where, "asyncmy"))

    async def seal(self, lease: LeaseCore) -> None:
        async with AsyncSession(self._engine) as session:
            await guard.async_seal(session, lease)

    async def read(self, lease: LeaseCore) -> str:  # noqa: ARG002  # the story's
        async with AsyncSession(self._engine) as session:
            return (await session.get_one(Row, 1)).value

    async def write(self, lease: LeaseCore, value: str) -> None:
        async with AsyncSession(self._engine) as session, guard.async_transaction(session, lease):
            (await session.get_one(Row, 1)).value = value

    async def write_bare(self, lease: LeaseCore, value: str) -> None:  # noqa: ARG002  # the story's
        async with AsyncSession(self._engine) as session, session.begin():
            (await session.get_one(Row, 1)).value = value

    async def close(self) -> None:
        await self._engine.dispose()
