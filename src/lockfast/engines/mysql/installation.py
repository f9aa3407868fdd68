"""Installs the tables and procedures of the engine, and gives a user the right to use locks."""

from __future__ import annotations

import time
from dataclasses import replace

from lockfast.engines.mysql import procedures
from lockfast.engines.mysql.failures import failed
from lockfast.engines.mysql.link import Link
from lockfast.engines.mysql.results import Row, ServerError
from lockfast.engines.mysql.threads import ThreadTransport
from lockfast.engines.mysql.url import Address
from lockfast.errors import EngineError, EngineRefused
from lockfast.runtime.drive import drive
from lockfast.runtime.threads import Threads
from lockfast.url import parse

REACHING = 10.0  # seconds to connect, and for each statement
# A statement that changes a table waits for the transactions that use it, and all later ones wait
# behind it. So it waits briefly, and tries again.
PATIENCE = "SET SESSION lock_wait_timeout = 1, sql_mode = 'STRICT_ALL_TABLES'"
TRIES, PAUSE = 8, 0.5
BUSY = frozenset([1205, 1213])
# MariaDB's GRANT creates a user who does not exist, with no password. MySQL's does not, and reads
# this as a comment, because it has no such mode.
NO_NEW_USER = "SET SESSION lock_wait_timeout = 1 /*M! , sql_mode = 'NO_AUTO_CREATE_USER' */"
NOBODY = frozenset([1133, 1410])  # on MariaDB and on MySQL
FIRST = (
    "the user of `role` does not exist for that host: CREATE USER first, or pass role='USER@HOST'"
)
GIVING = (
    "lockfast is installed, but your user may not give rights to others. Let an administrator run: "
)
LOCK, UNLOCK = "SELECT GET_LOCK('lockfast_install', 10)", "SELECT RELEASE_LOCK('lockfast_install')"
EXISTING = (
    "SELECT ROUTINE_NAME FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = DATABASE() "
    "AND ROUTINE_NAME REGEXP '^lockfast_(claim|renew|resign|ear|show|records?)_v([2-9]|1[0-9])'"
)
DENIED = frozenset([1044, 1142, 1227, 1370, 1419])
OWNER = (
    "install with a user that may create the database with its tables and procedures, such as root"
)


def install(url: str, *, role: str | None = None) -> None:
    """Install or upgrade the tables and procedures. Blocking. Safe to run again, and in several
    processes at once.

    Clients may hold locks and wait meanwhile. The procedures run with the rights of the user who
    installs them, so that user must not be dropped.

    Args:
        url: The URL of the database, with a user who may create it. It is created if it does not
            exist.
        role: A user who gets the right to take and release locks, and no other right: `app`, or
            `app@10.0.0.%`. The user must exist.

    Raises:
        EngineUnavailable: The server cannot be reached, or another transaction is in the way.
        EngineRefused: The password is wrong, a right or the user is missing, or a later version of
            lockfast has installed its procedures.
        ValueError: The URL is not one of MySQL or MariaDB, or has an option that does not exist.
    """
    address = Address.of(parse(url))
    runtime = Threads()
    # Without a database, because it may not exist yet.
    transport = ThreadTransport(
        replace(address, database=""), runtime.bell(), runtime.turns(1), runtime.now
    )
    try:
        drive(_install(transport, address, role))
    finally:
        drive(transport.close())


async def _install(transport: ThreadTransport, address: Address, role: str | None) -> None:
    link = await transport.open(transport.now() + REACHING)
    session = Session(transport, link)
    try:
        await session.run(PATIENCE)
        await session.run(LOCK)
        if not await session.run(f"SHOW DATABASES WHERE `Database` = {text(address.database)}"):
            # Looked up first: a user may have all rights in a database, and none to create one.
            await session.run(f"CREATE DATABASE IF NOT EXISTS {name(address.database)}")
        await session.run(f"USE {name(address.database)}")
        if await session.run(EXISTING):
            raise EngineRefused(
                f"{link.where}: a later version of lockfast has installed its procedures here: "
                "upgrade lockfast. Nothing was changed."
            )
        for statement in procedures.statements(procedures.text(mariadb=link.greeting.mariadb)):
            await session.run(statement)
        if role is not None:
            await session.run(NO_NEW_USER)
            grant = f"GRANT EXECUTE ON {name(address.database)}.* TO {account(role)}"
            await session.run(grant, denied=GIVING + grant)
        await session.run(UNLOCK)
    finally:
        link.close()


class Session:
    """One connection that runs the statements of an installation."""

    def __init__(self, transport: ThreadTransport, link: Link) -> None:
        """Use an open connection."""
        self._transport = transport
        self._link = link

    async def run(self, sql: str, *, denied: str = OWNER) -> list[Row]:
        """Run a statement, and try again if something was in its way. `denied`: what to do if the
        user has no right to it.
        """
        for left in reversed(range(TRIES)):
            deadline = self._transport.now() + 2 * REACHING
            try:
                return await self._transport.exchange(self._link, sql.encode(), deadline)
            except ServerError as error:
                if error.code not in BUSY or not left:
                    raise self._failed(error, denied) from error
                time.sleep(PAUSE)  # noqa: ASYNC251  # driven, so it must block
        raise AssertionError  # the last try returns or raises

    def _failed(self, error: ServerError, denied: str) -> EngineError:
        if error.code in DENIED:
            return EngineRefused(f"{self._link.where}: {error} ({denied})")
        if error.code in NOBODY:
            return EngineRefused(f"{self._link.where}: {error} ({FIRST})")
        return failed(error.code, error.text, self._link.where)


def name(raw: str) -> str:
    """Quote a name."""
    return f"`{raw.replace('`', '``')}`"


def text(raw: str) -> str:
    """Write a text, in hexadecimal digits, so that there is nothing to quote."""
    return f"CONVERT(x'{raw.encode().hex()}' USING utf8mb4)"


def account(role: str) -> str:
    """Quote the name of a user, with or without a host."""
    user, at, host = role.rpartition("@")
    parts = (user, host) if at else (role, "%")
    if any(sign in part for part in parts for sign in "'\\\0"):
        raise ValueError("a user's name cannot contain quotes, backslashes or NUL")
    return "@".join(f"'{part}'" for part in parts)
