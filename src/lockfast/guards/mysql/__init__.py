"""The guard for MariaDB and MySQL: marks in a table or in columns, and triggers. `install` it once.

It imports no driver. It is written for PyMySQL.
"""

from __future__ import annotations

from lockfast.guards.mysql.columns import Columns, Expression
from lockfast.guards.mysql.guard import MysqlGuard
from lockfast.guards.mysql.installation import install, schema
from lockfast.guards.mysql.trigger import protect, unprotect

__all__ = [
    "Columns",
    "Expression",
    "MysqlGuard",
    "install",
    "protect",
    "schema",
    "unprotect",
]
