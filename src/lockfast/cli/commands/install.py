"""`lockfast install`: prepare PostgreSQL, MySQL, MariaDB or Redlock for the first lock."""

from __future__ import annotations

from importlib import import_module

import typer
from rich.text import Text

from lockfast.cli.engine_url import address, connect, connects_to_engine
from lockfast.cli.render.stdout import show
from lockfast.engines import ENGINES
from lockfast.plain import plain
from lockfast.url import parse


def install(context: typer.Context) -> None:
    """Prepare PostgreSQL, MySQL, MariaDB or Redlock for the first lock.

    It creates the schema in PostgreSQL, the tables and procedures in MySQL and MariaDB, and the
    membership of Redlock's nodes. The other engines need no preparation, and the command does
    nothing there. You can run it again, also while locks are held, and from several machines at
    once. It updates an older schema, and changes no lock.

    For example:
      lockfast --url postgresql://localhost/app install
      lockfast --url mysql://root@localhost/lockfast install
      lockfast --url redlock://h1,h2,h3 install

    Exit codes:
      0   the engine is ready
      64  the URL is that of the service
      69  the engine cannot be reached
      78  the engine rejects the request: a wrong password, a missing right
    """
    connect(context).close()  # raises if the URL is wrong, and sends nothing
    connects_to_engine(context)
    where = plain(address(context))
    database = parse(context.obj).path.removeprefix("/")
    name = ENGINES.get(parse(context.obj).scheme.partition("+")[0])
    module = import_module(f"lockfast.engines.{name}") if name else None
    prepare = getattr(module, "install", None)
    if prepare is None:
        show(Text(f"{where} needs no installation."))
        return
    prepare(context.obj)
    show(Text(f"{where} is ready{f', in the database {plain(database)}' if database else ''}."))
