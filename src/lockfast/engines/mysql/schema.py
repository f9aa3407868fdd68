"""The tables and procedures of the engine: reads schema.sql, and splits it into statements."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files

END = "//"  # ends a statement in schema.sql, because procedures contain semicolons
CREATE, REPLACE = "CREATE PROCEDURE ", "CREATE OR REPLACE PROCEDURE "

NOW = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"
"""The server's clock in µs. It is UTC, because local time is ambiguous when summer time ends."""

LINE = "CONCAT(@@server_id)"
"""Names the server that mints tickets. A replica that was promoted has another one."""
GALERA_LINE = "IF(@@wsrep_on AND @@wsrep_provider <> 'none', 'galera', CONCAT(@@server_id))"
"""The same on MariaDB. All nodes of a Galera cluster have all tickets, so they are one server."""

ENTER = """BEGIN
    -- With a `timestamp` of its own, a user could mint tokens of the future. Where the server has
    -- secure_timestamp, nobody can set it, not even here.
    DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN END;
    SET timestamp = DEFAULT;
  END;
  -- An owner with the right to write to a replica must not grant locks there.
  IF CONCAT(@@global.read_only) NOT IN ('0', 'OFF') THEN
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 1290, MESSAGE_TEXT = 'lockfast: the server is read-only';
  END IF;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  START TRANSACTION READ WRITE;"""
"""Begins the transaction of an operation."""

CLOCK = f"""IF v_none THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'lockfast: a row of lockfast_bucket is missing';
      END IF;
      SET v_now = {NOW};
      -- If the clock went back, no claim may live longer than one ttl from now.
      IF v_seen > v_now THEN
        UPDATE lockfast_claim SET expires = LEAST(expires, v_now + IF(waits, wait_ttl, ttl))
        WHERE b = v_b AND kind < 100;
      END IF;
      -- To call a procedure for nothing would cost a third of the operation.
      IF EXISTS (SELECT 1 FROM lockfast_claim c FORCE INDEX (expiry) WHERE c.b = v_b AND c.expires <= v_now)
        OR EXISTS (SELECT 1 FROM lockfast_tombstone t WHERE t.b = v_b AND t.until <= v_now) THEN
        CALL lockfast_sweep_v1(v_b, v_now, v_notes);
      END IF;"""
"""Reads the clock in a bucket that was locked just before, and removes what has expired."""

LEAVE = """-- One note is written with the grant, which saves a wait for the disk.
  SET v_told = LENGTH(v_notes) = 24;
  IF v_told THEN
    UPDATE lockfast_ear SET n = n + 1, notes = LEFT(CONCAT(v_notes, notes), 1152)
    WHERE slot = CRC32(SUBSTR(v_notes, 1, 11)) % 1024;
  END IF;
  COMMIT AND NO CHAIN NO RELEASE;
  IF v_notes <> '' THEN
    CALL lockfast_tell_v1(v_notes, v_told);
  END IF;
  SELECT v_answer;"""
"""Ends the transaction of an operation, wakes waiters, and answers."""

ROOM = "CAST(@@max_allowed_packet AS SIGNED) DIV 4 - LENGTH(v_answer) DIV 2"
"""How many bytes of a payload fit into the rest of a reply. A larger value would become NULL."""


def text(*, mariadb: bool) -> str:
    """Return all of the SQL, as the command-line client of the server reads it."""
    raw = (files(__package__) / "schema.sql").read_text(encoding="utf-8")
    line = GALERA_LINE if mariadb else LINE
    parts = {"ENTER": ENTER, "CLOCK": CLOCK, "LEAVE": LEAVE, "LINE": line, "ROOM": ROOM, "NOW": NOW}
    for name, part in parts.items():
        raw = raw.replace("{" + name + "}", part)
    return raw.replace(CREATE, REPLACE) if mariadb else _dropping(raw)


def _dropping(raw: str) -> str:
    """Drop each procedure before it is created: MySQL cannot replace one."""
    lines = []
    for line in raw.split("\n"):
        if line.startswith(CREATE):
            lines.append(f"DROP PROCEDURE IF EXISTS {procedure(line)}{END}")
        lines.append(line)
    return "\n".join(lines)


def procedure(line: str) -> str:
    """Return the name of the procedure that a line begins to create."""
    return line.partition("PROCEDURE ")[2].partition("(")[0]


def statements(sql: str) -> Iterator[str]:
    """Split the SQL into its statements."""
    _, _, rest = sql.partition(f"DELIMITER {END}")
    for statement in rest.split(f"{END}\n"):
        if statement.strip():
            yield statement
