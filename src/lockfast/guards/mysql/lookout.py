"""The lookout: which statements of a guarded block may have ended its transaction. No I/O.

On MariaDB and MySQL a transaction is ended by COMMIT and ROLLBACK, by BEGIN, and by every DDL
statement, which commits what came before it even if it then fails. The lookout refuses the
statements that surely end the transaction before they are sent. After one of which it does not
know, and after an error (a deadlock rolls all of it back), it asks for a test of the server.
"""

from __future__ import annotations

import re
from typing import NoReturn

from lockfast.errors import Unguarded
from lockfast.guards.mysql.statements import OVER

_SPACE = r"(?:\s|\(|/\*(?!!|M!)(?s:.*?)\*/|--[ \t][^\n]*\n|\#[^\n]*\n)*"
_ENDS = re.compile(
    _SPACE + r"(BEGIN|START\s+TRANSACTION|COMMIT|XA|LOCK\s+TABLES?|GRANT|REVOKE|ALTER|RENAME"
    r"|TRUNCATE|ROLLBACK(?!\s+(?:WORK\s+)?TO\b)"
    r"|(?:CREATE(?:\s+OR\s+REPLACE)?|DROP)(?!\s+(?:OR|TEMPORARY)\b))\b",
    re.IGNORECASE,
)
_PLAIN = re.compile(
    _SPACE + r"(?:SELECT|INSERT|UPDATE|DELETE|REPLACE|WITH|SAVEPOINT|RELEASE|ROLLBACK)\b",
    re.IGNORECASE,
)
_HEAD = 2000  # characters in which a statement says what it is


class Lookout:
    """Looks at the statements of one block."""

    def __init__(self) -> None:
        """Begin with a transaction that was just entered."""
        self._why: str | None = None
        self._doubt = False

    def before(self, statement: str | bytes) -> bool:
        """Return whether the server must be asked for its transaction before this statement.

        Raises:
            Unguarded: The statement would end the transaction, or the transaction has ended.
        """
        self.check()
        if ends := _ENDS.match(_head(statement)):
            self.refuse(" ".join(ends[1].upper().split()))
        doubt, self._doubt = self._doubt, True  # until `after` says that it has succeeded
        return doubt

    def after(self, statement: str | bytes) -> None:
        """Note that a statement has succeeded."""
        several = ";" in statement if isinstance(statement, str) else b";" in statement
        if not several and _PLAIN.match(_head(statement)):
            self._doubt = False

    def check(self) -> None:
        """Raise `Unguarded` if a statement was refused, or if the transaction has ended."""
        if self._why is not None:
            raise Unguarded(self._why)

    def refuse(self, word: str) -> NoReturn:
        """Raise `Unguarded` for a statement that is not sent. The block cannot be committed."""
        self._why = (
            f"{word} would end the guarded transaction, so it was not sent. Leave the block: it "
            "commits at its end, and rolls back on an error."
        )
        raise Unguarded(self._why)

    def end(self) -> NoReturn:
        """Raise `Unguarded`, because the transaction has ended."""
        self._why = OVER
        raise Unguarded(OVER)


def _head(statement: str | bytes) -> str:
    start = statement[:_HEAD]
    return start if isinstance(start, str) else bytes(start).decode("latin-1")
