-- What several procedures of schema.sql have in common. Each part replaces its name in braces there. A part and
-- not a procedure, because to call a procedure costs a third of an operation.

-- part NOW: the server's clock in µs. It is UTC, because local time is ambiguous when summer time ends.
TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))

-- part NEVER: a time that does not come.
9223372036854775807

-- part WHO: the user name that logged in. USER() has the client's host behind the last @.
LEFT(USER(), CHAR_LENGTH(USER()) - LOCATE('@', REVERSE(USER())))

-- part INSTALLER: the user name that installed a procedure, in the rights of which it runs.
LEFT(CURRENT_USER(), CHAR_LENGTH(CURRENT_USER()) - LOCATE('@', REVERSE(CURRENT_USER())))

-- part LINE: names the server that mints tickets. A replica that was promoted has another one.
CONCAT(@@global.server_id)

-- part MARIADB_LINE: the same on MariaDB. All nodes of a Galera cluster have all tickets, so they are one server.
IF(@@wsrep_on AND @@wsrep_provider <> 'none', 'galera', CONCAT(@@global.server_id))

-- part PAUSE: sleeps for half a second, or until the query is killed.
SLEEP(0.5)

-- part MARIADB_PAUSE: the same on MariaDB, by waiting for a transaction that no replica ever gets. There, all that
-- run SLEEP share a mutex. One that is killed may wait, with the mutex, for its killer, which waits for the mutex:
-- until it gives up, 2 seconds later, nobody wakes from SLEEP, and the release that killed does not end. A pool of
-- threads does not notice the other wait, and would run no query of others meanwhile. So with a pool it is SLEEP,
-- and nobody is killed: see the part KILL.
IF(@@thread_handling = 'pool-of-threads', SLEEP(0.5), MASTER_GTID_WAIT('4294967295-1-18446744073709551615', 0.5))

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
  -- With 0, no handler for NOT FOUND runs: totals of another queue would be taken for those of an empty one.
  SET SESSION max_error_count = 64;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  START TRANSACTION READ WRITE;

-- part LOOK: what a procedure begins with that only reads. A session that is SERIALIZABLE and not in autocommit would
-- lock all that it reads, and renewals would wait for it. In a transaction this is an error.
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;

-- part RENEWAL: refuses a record of a renewal that was cut, or whose name has a negative length. With that, a user
-- who may only execute could read the same record for ever, and hold the rows of all buckets.
IF NOT (v_names BETWEEN 1 AND 512 AND i <= LENGTH(p_asks) + 1) THEN
      SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'lockfast: not a claim';
    END IF;

-- part EACH: the records of a batch in their order: the place of each, and where it begins. LIMIT makes a table of
-- them, of which a statement that locks its rows locks none.
(SELECT n.n, n.n * v_size AS at FROM lockfast_number n WHERE n.n < v_count ORDER BY n.n LIMIT 1024) r

-- part ID: of the record r. So are the next parts, up to PAYLOAD.
SUBSTR(p_asks, r.at + 1, 16)

-- part NAME:
SUBSTR(p_names, SUBSTR(p_asks, r.at + 20, 7), SUBSTR(p_asks, r.at + 17, 3))

-- part BUCKET:
CRC32({NAME}) % 1024

-- part UNTIL:
CAST(SUBSTR(p_asks, r.at + 27, 16) AS SIGNED)

-- part KIND:
CAST(SUBSTR(p_asks, r.at + 27, 3) AS SIGNED)

-- part CAPACITY:
CAST(SUBSTR(p_asks, r.at + 31, 10) AS SIGNED)

-- part WEIGHT:
CAST(SUBSTR(p_asks, r.at + 41, 10) AS SIGNED)

-- part TTL:
CAST(SUBSTR(p_asks, r.at + 51, 16) AS SIGNED)

-- part WAIT_TTL:
CAST(SUBSTR(p_asks, r.at + 67, 16) AS SIGNED)

-- part LATE:
CAST(SUBSTR(p_asks, r.at + 83, 16) AS SIGNED)

-- part PAYLOAD:
SUBSTR(p_payloads, SUBSTR(p_asks, r.at + 104, 7), SUBSTR(p_asks, r.at + 99, 5))

-- part CLAIM: reads the record i of a claim. Our clients send no values that it refuses. But a user who may only
-- execute could otherwise overfill a lock by a negative weight, or use up the tickets.
SET v_head = SUBSTR(p_asks, i * 110 - 109, 110);
    SET v_id = SUBSTR(v_head, 1, 16), v_names = SUBSTR(v_head, 17, 3), v_kind = SUBSTR(v_head, 27, 3),
      v_queue = SUBSTR(v_head, 30, 1), v_capacity = SUBSTR(v_head, 31, 10), v_weight = SUBSTR(v_head, 41, 10),
      v_ttl = SUBSTR(v_head, 51, 16), v_wait_ttl = SUBSTR(v_head, 67, 16), v_late = SUBSTR(v_head, 83, 16),
      v_payloads = SUBSTR(v_head, 99, 5), v_name = SUBSTR(p_names, SUBSTR(v_head, 20, 7), v_names),
      v_payload = SUBSTR(p_payloads, SUBSTR(v_head, 104, 7), v_payloads);
    IF NOT (v_weight BETWEEN 1 AND v_capacity AND v_ttl BETWEEN 1 AND 4503599627370495
      AND v_wait_ttl BETWEEN 1 AND 4503599627370495 AND p_base BETWEEN 0 AND 4503599627370495
      AND LENGTH(v_name) = v_names AND v_names BETWEEN 1 AND 512
      AND LENGTH(v_payload) = v_payloads AND v_payloads BETWEEN 0 AND 65536 AND LENGTH(p_asks) = v_count * 110
      AND CASE v_kind
        WHEN 1 THEN v_capacity = 1
        WHEN 2 THEN v_capacity = 2147483647 AND v_weight IN (1, 2147483647)
        WHEN 3 THEN v_capacity < 2147483647
        ELSE FALSE
      END) OR p_base IS NULL OR p_names IS NULL OR p_payloads IS NULL THEN
      SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'lockfast: not a claim';
    END IF;

-- part RESIGNATION: reads the record i of a resignation.
SET v_head = SUBSTR(p_asks, i * 42 - 41, 42);
    SET v_id = SUBSTR(v_head, 1, 16), v_names = SUBSTR(v_head, 17, 3), v_until = SUBSTR(v_head, 27, 16),
      v_name = SUBSTR(p_names, SUBSTR(v_head, 20, 7), v_names);
    IF NOT (LENGTH(v_name) = v_names AND v_names BETWEEN 1 AND 512 AND LENGTH(p_asks) = v_count * 42)
      OR p_names IS NULL THEN
      SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'lockfast: not a claim';
    END IF;

-- part REMOVAL: removes the claim of the record i, and notes in v_answer whether it was there.
SET v_b = CRC32(v_name) % 1024;
    IF NOT v_b <=> v_locked THEN
      SET v_none = FALSE, v_locked = v_b;
      SELECT k.seen, k.due INTO v_seen, v_due FROM lockfast_bucket k WHERE k.b = v_b FOR UPDATE;
      {CLOCK}
      {SEEN}
    END IF;
    SET v_none = FALSE, v_owner = v_who;
    SELECT c.waits, IF(c.waits, 0, c.weight), c.ticket, c.claims, c.waiting, c.held, c.owner
    INTO d_waiting, d_held, l_ticket, l_claims, l_waiting, l_held, v_owner FROM lockfast_claim c
    WHERE c.b = v_b AND c.id = v_id AND c.name = v_name AND c.kind BETWEEN 1 AND 3;
    IF v_owner <> v_who THEN
      CALL lockfast_permit_v1(v_owner);
    END IF;
    -- It refuses the claims of one user only, or others could forbid a client the id of its own claim.
    IF v_until > 0 THEN
      SET v_until = GREATEST(LEAST(v_until, v_now + 86400000000), v_now + 11000000);
      INSERT INTO lockfast_tombstone (b, id, owner, until) VALUES (v_b, v_id, v_owner, v_until)
      ON DUPLICATE KEY UPDATE until = GREATEST(until, v_until);
      UPDATE lockfast_bucket SET due = LEAST(due, v_until) WHERE b = v_b;
    END IF;
    IF v_none THEN
      SET v_answer = INSERT(v_answer, i, 1, 'f');
    ELSE
      DELETE FROM lockfast_claim WHERE b = v_b AND id = v_id;
      SET d_claims = 1;
      {GRANT}
      SET v_answer = INSERT(v_answer, i, 1, 't');
    END IF;

-- part LOCK: locks the buckets of all records, in the order of these. Nothing else may be read in this statement: it
-- sees what was committed before it began to wait. No LEFT JOIN: the server leaves out a table of which it needs no
-- column, and locks nothing.
FROM {EACH} STRAIGHT_JOIN lockfast_bucket k ON k.b = {BUCKET} FOR UPDATE;

-- part QUIET: whether nothing needs to be done first in the bucket k, where v_now was read after it was locked.
k.seen <= v_now AND k.due > v_now

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
      IF v_seen > v_now OR v_due <= v_now THEN
        CALL lockfast_sweep_v1(v_b, v_now, v_notes, v_due);
      END IF;

-- part SEEN: notes the clock in a bucket of which no ticket is minted. A claim after a promotion raises tokens by
-- the time since then, and the time before that must not be forgotten. The server before may have used it to raise
-- tokens, and have died before this one heard of it.
UPDATE lockfast_bucket SET last = last + IF(line = v_line, 0, GREATEST(v_now - v_seen, 0)), seen = v_now, due = v_due
      WHERE b = v_b;

-- part GRANT: updates the totals of a queue after claims were deleted from it. Then it grants waiters in the order
-- of tickets, up to the first one that does not fit, and appends a note for each to v_notes. A waiter fits if its
-- weight and the weight of all that are granted are at most its own capacity.
--
-- d_claims   how many were deleted              d_waiting  how many of these waited
-- d_held     the weight of those that did not   l_*        ticket and totals of the one of them with the highest
--            ticket. If it was the last claim of the queue, its totals are those of the queue
granting: BEGIN
        SET v_none = FALSE, v_floor = NULL;
        SELECT c.id, c.ticket, c.kind, c.waits, c.weight, c.capacity, c.claims, c.waiting, c.held, c.owner
        INTO t_id, t_ticket, t_kind, t_waits, t_weight, t_capacity, t_claims, t_waiting, t_held, t_owner
        FROM lockfast_claim c FORCE INDEX (queue)
        WHERE c.name = v_name ORDER BY c.waits DESC, c.ticket DESC LIMIT 1;
        IF v_none OR t_kind >= 100 THEN
          LEAVE granting;
        END IF;
        IF l_ticket > t_ticket THEN
          SET t_claims = l_claims, t_waiting = l_waiting, t_held = l_held;
        END IF;
        SET t_claims = t_claims - d_claims, t_waiting = t_waiting - d_waiting, t_held = t_held - d_held;
        WHILE t_waiting > 0 AND NOT v_none DO
          IF t_waiting = 1 AND t_waits THEN -- the last claim is the only one that waits
            SET w_id = t_id, w_ticket = t_ticket, w_kind = t_kind, w_weight = t_weight, w_capacity = t_capacity,
              w_owner = t_owner;
          ELSE
            SELECT c.id, c.ticket, c.kind, c.weight, c.capacity, c.owner
            INTO w_id, w_ticket, w_kind, w_weight, w_capacity, w_owner FROM lockfast_claim c FORCE INDEX (queue)
            WHERE c.name = v_name AND c.waits = 1 ORDER BY c.ticket LIMIT 1;
          END IF;
          IF v_none OR w_kind NOT BETWEEN 1 AND 3 OR t_held + w_weight > w_capacity THEN
            SET v_none = TRUE;
          ELSE
            IF v_floor IS NULL AND t_held = 0 THEN -- nothing is granted, so it is the oldest claim
              SET v_floor = w_ticket;
            ELSEIF v_floor IS NULL THEN
              SELECT c.ticket INTO v_floor FROM lockfast_claim c FORCE INDEX (queue)
              WHERE c.name = v_name ORDER BY c.waits, c.ticket LIMIT 1;
            END IF;
            IF w_id = t_id THEN -- it is written below
              SET t_waits = 0;
            ELSE
              UPDATE lockfast_claim SET waits = 0 WHERE b = v_b AND id = w_id;
            END IF;
            SET t_waiting = t_waiting - 1, t_held = t_held + w_weight,
              v_notes = CONCAT(v_notes, w_id,
                UNHEX(CONCAT(LPAD(HEX(v_floor), 16, '0'), LPAD(HEX(CRC32(w_owner)), 8, '0'))));
          END IF;
        END WHILE;
        UPDATE lockfast_claim SET waits = t_waits, claims = t_claims, waiting = t_waiting, held = t_held
        WHERE b = v_b AND id = t_id;
      END;

-- part KILL: wakes a client, after the transaction that granted one of its claims.
--
-- A client that waits runs ear_v1, which sleeps for half a second at most, on a connection that runs nothing
-- else, and holds a lock of GET_LOCK with the client's name. Its query is killed here. No number of a connection
-- is stored: it would be the number of another connection after a restart. A kill that comes while the client
-- runs no query is lost, but the note in `ear` is not: the next ear_v1 sees it and does not sleep.
BEGIN
      -- The waiter looks by itself soon. 1094: the connection has ended. 1095: the owner may not kill it.
      DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN END;
      SET v_connection = IS_USED_LOCK(CONCAT('lockfast_', LOWER(HEX(v_client))));
      IF v_connection <> CONNECTION_ID() AND @@thread_handling <> 'pool-of-threads' THEN
        KILL QUERY v_connection;
      END IF;
    END;

-- part LEAVE: ends the transaction of an operation, wakes waiters, and answers. One note is written with the grant,
-- which saves a wait for the disk.
SET v_told = LENGTH(v_notes) = 28;
  IF v_told THEN
    SET v_client = SUBSTR(v_notes, 1, 11);
    UPDATE lockfast_ear SET n = n + 1, notes = LEFT(CONCAT(v_notes, notes), 1344)
    WHERE slot = CRC32(v_client) % 1024;
  END IF;
  COMMIT AND NO CHAIN NO RELEASE;
  IF v_told THEN
    {KILL}
  ELSEIF v_notes <> '' THEN
    CALL lockfast_tell_v1(v_notes);
  END IF;
  SELECT v_answer;
