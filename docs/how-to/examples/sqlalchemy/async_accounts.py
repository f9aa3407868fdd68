import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from accounts import Account
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine

from lockfast import aio
from lockfast.guards import sqlalchemy as guard

engine = create_async_engine("postgresql+psycopg://localhost/app")
sessions = async_sessionmaker(engine)


@asynccontextmanager
async def locked_session(client: aio.AsyncClient, name: str) -> AsyncIterator[AsyncSession]:
    async with client.lock(name, ttl=30, timeout=30) as lease, sessions() as session:
        await guard.async_seal(session, lease)
        async with guard.async_transaction(session, lease):
            yield session


async def main() -> None:
    url = os.environ.get("REDIS_URL", "redis://localhost:6379")
    async with aio.connect(url) as client, locked_session(client, "account:1") as session:
        account = await session.get_one(Account, 1)
        account.balance += 5
        print("balance:", account.balance)
    await engine.dispose()


asyncio.run(main())
