-- What several procedures of schema.sql have in common. Each part replaces its name in braces there. A part and
-- not a procedure, because to call a procedure costs a third of an operation.

-- part NOW: the server's clock in µs. It is UTC, because local time is ambiguous when summer time ends.
TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))

-- part LINE: names the server that mints tickets. A replica that was promoted has another one.
CONCAT(@@server_id)

-- part MARIADB_LINE: the same on MariaDB. All nodes of a Galera cluster have all tickets, so they are one server.
IF(@@wsrep_on AND @@wsrep_provider <> 'none', 'galera', CONCAT(@@server_id))

-- part ROOM: how many bytes of a payload fit into the rest of a reply. A reply that is too large becomes NULL.
CAST(@@max_allowed_packet AS SIGNED) DIV 4 - LENGTH(v_answer) DIV 2

-- part ENTER: begins the transaction of an operation.
BEGIN
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
  START TRANSACTION READ WRITE;

-- part CLOCK: reads the clock in a bucket that was locked just before, and removes what has expired.
IF v_none THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'lockfast: a row of lockfast_bucket is missing';
      END IF;
      SET v_now = {NOW};
      -- If the clock went back, no claim may live longer than one ttl from now.
      IF v_seen > v_now THEN
        UPDATE lockfast_claim SET expires = LEAST(expires, v_now + IF(waits, wait_ttl, ttl))
        WHERE b = v_b AND kind < 100;
      END IF;
      SELECT EXISTS (SELECT 1 FROM lockfast_claim c FORCE INDEX (expiry) WHERE c.b = v_b AND c.expires <= v_now)
        OR EXISTS (SELECT 1 FROM lockfast_tombstone t FORCE INDEX (expiry) WHERE t.b = v_b AND t.until <= v_now)
      INTO v_found;
      IF v_found THEN
        CALL lockfast_sweep_v1(v_b, v_now, v_notes);
      END IF;

-- part LEAVE: ends the transaction of an operation, wakes waiters, and answers.
-- One note is written with the grant, which saves a wait for the disk.
  SET v_told = LENGTH(v_notes) = 24;
  IF v_told THEN
    UPDATE lockfast_ear SET n = n + 1, notes = LEFT(CONCAT(v_notes, notes), 1152)
    WHERE slot = CRC32(SUBSTR(v_notes, 1, 11)) % 1024;
  END IF;
  COMMIT AND NO CHAIN NO RELEASE;
  IF v_notes <> '' THEN
    CALL lockfast_tell_v1(v_notes, v_told);
  END IF;
  SELECT v_answer;
