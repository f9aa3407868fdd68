-- What several procedures of schema.sql have in common. Each part replaces its name in braces there. A part and
-- not a procedure, because to call a procedure costs a third of an operation.

-- part NOW: the server's clock in µs. It is UTC, because local time is ambiguous when summer time ends.
TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))

-- part WHO: the user name that logged in. USER() has the client's host behind the last @.
LEFT(USER(), CHAR_LENGTH(USER()) - LOCATE('@', REVERSE(USER())))

-- part INSTALLER: the user name that installed a procedure, in the rights of which it runs.
LEFT(CURRENT_USER(), CHAR_LENGTH(CURRENT_USER()) - LOCATE('@', REVERSE(CURRENT_USER())))

-- part LINE: names the server that mints tickets. A replica that was promoted has another one.
CONCAT(@@server_id)

-- part MARIADB_LINE: the same on MariaDB. All nodes of a Galera cluster have all tickets, so they are one server.
IF(@@wsrep_on AND @@wsrep_provider <> 'none', 'galera', CONCAT(@@server_id))

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
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  START TRANSACTION READ WRITE;

-- part WHOLE: refuses a record of a renewal or resignation that was cut, or whose name has a negative length. With
-- that, a user who may only execute could read the same record for ever, and hold the rows of all buckets.
IF NOT (v_names BETWEEN 1 AND 512 AND i <= LENGTH(p_asks) + 1) THEN
      SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'lockfast: not a claim';
    END IF;

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
      -- A minimum is one look into an index. One statement with EXISTS for both costs three times as much.
      SELECT MIN(c.expires) <= v_now INTO v_found FROM lockfast_claim c WHERE c.b = v_b;
      IF v_found IS NOT TRUE THEN
        SELECT MIN(t.until) <= v_now INTO v_found FROM lockfast_tombstone t WHERE t.b = v_b;
      END IF;
      IF v_found THEN
        CALL lockfast_sweep_v1(v_b, v_now, v_notes);
      END IF;

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
