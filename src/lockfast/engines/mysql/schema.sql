-- The tables and procedures of lockfast in a MariaDB (10.6 or later) or MySQL (8.0 or later) database. Safe to
-- run again, also while locks are held.
--
-- bucket     1,024 rows. Each row is the mutex of all names in its bucket, and mints their tickets. So the
--            order of tickets is the order of commits. Nothing is kept per name.
-- claim      the live claims. Times are in microseconds, by this server's clock.
-- tombstone  ids that are refused until every copy of their claim is too late anyway.
-- attached   to which connection of the service a claim belongs: see attach_v1.
-- ear        1,024 rows. A client looks into the row of its own slot for its grants: see the part KILL.
-- broken     records of claims that were broken, for a day.
-- operator   users who may end the claims of others. Its owner writes it: no procedure does.
-- number     the numbers from 0 to 1,023, to read the records of a batch in one statement. Nobody writes it.
--
-- Each operation is one procedure and one transaction, in READ COMMITTED. Only at that level does every
-- statement see what was committed before the bucket's row was locked. A function cannot do this: all of it
-- sees one state of the tables, also at that level, and its clock stands still. The clock is read in a
-- statement of its own after the row was locked. Expired claims are deleted. If queries only filtered them out,
-- a lock could be granted twice when the clock goes back.
--
-- `due` saves two queries in each operation. Whoever stores a claim or a tombstone that expires earlier, or lets one
-- expire earlier, lowers it, also by hand. It may be too early, and then the next operation looks.
--
-- Every operation writes the bucket's row, also if it only reads the claims. Galera finds conflicts between
-- two nodes by the rows that were written, and does not know of rows that were only locked.
--
-- A batch is a value of bytes, because there are no arrays: records one after the other, with fields of fixed
-- width. Clients sort a batch by bucket, so that two batches cannot deadlock. No lock is taken after a row of
-- `ear`, and no transaction locks two of these.
--
-- Statements for each record cost most of a batch's time. So a batch of three or more locks all of its buckets in
-- one statement, and one more finds the claims and resignations that concern nobody else: on free names, and of
-- sole claims. These are applied together. The others go one by one, in the same transaction.
--
-- Nothing but the bucket's row keeps others out, so queries lock nothing. A query in the condition of an IF is not
-- a SELECT to InnoDB, which locks all that it reads there, and the first row behind it, of another bucket. So a
-- SELECT ... INTO stands before each IF.
--
-- Granted claims are ahead of waiting ones, so the queue of a name is its claims in the order of
-- (waits, ticket). The last claim of a queue carries the totals of the whole queue, so no query has to count a
-- long queue.
--
-- Rights: a lock user has EXECUTE on this database, and no right to its tables. The procedures that clients call
-- run with the rights of the user who installed them. Those that they call in turn run with the rights of their
-- caller, so a lock user who calls one of these directly is refused. A claim belongs to the user name that logged
-- in to make it, and permit_v1 decides who else may end it. This is no matter of separate procedures with
-- separate rights, because MySQL takes away all rights to a procedure that is replaced. Parameters are wider than the columns, and
-- lengths are checked here: with sql_mode = '' the server would cut a value without an error.
--
-- Formats: each row of `claim` shows its format by its kind, as in PostgreSQL. Rows of format 1 have a kind from
-- 1 to 3. Rows of a later format f have a kind of at least 100 * f. The procedures refuse claims on a name that
-- has live rows of another format. They neither renew nor grant such rows, and delete them when they have
-- expired. So the columns b, id, name, ticket, kind and expires mean the same in every format.

DELIMITER //

CREATE TABLE IF NOT EXISTS lockfast_bucket (
  b    SMALLINT UNSIGNED NOT NULL PRIMARY KEY,
  last BIGINT NOT NULL DEFAULT 0, -- the highest ticket that it has minted
  seen BIGINT NOT NULL DEFAULT 0, -- the clock when its row was last locked
  due  BIGINT NOT NULL DEFAULT 0, -- nothing in the bucket expires before this time
  line VARBINARY(64) NOT NULL     -- the server that minted its last ticket
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC//

CREATE TABLE IF NOT EXISTS lockfast_claim (
  b        SMALLINT UNSIGNED NOT NULL,
  id       BINARY(16)     NOT NULL,
  name     VARBINARY(512) NOT NULL, -- bytes: a collation would take some names for others
  ticket   BIGINT         NOT NULL,
  waits    TINYINT        NOT NULL, -- 0: it is granted
  kind     SMALLINT       NOT NULL, -- 1: lock, 2: read/write lock, 3: semaphore; others: see above
  capacity INT            NOT NULL,
  weight   INT            NOT NULL,
  ttl      BIGINT         NOT NULL,
  wait_ttl BIGINT         NOT NULL,
  expires  BIGINT         NOT NULL,
  place    BIGINT         NOT NULL, -- one more than the place of the queue's last claim when it was appended
  claims   INT            NOT NULL, -- the totals, valid only in the last claim of a queue: how many there are,
  waiting  INT            NOT NULL, -- how many of them wait,
  held     BIGINT         NOT NULL, -- the weight of those that are granted
  payload  MEDIUMBLOB     NOT NULL,
  owner    VARBINARY(512) NOT NULL, -- the user name that logged in to make the claim
  PRIMARY KEY (b, id),
  KEY queue (name, waits, ticket),
  KEY expiry (b, expires)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC//

CREATE TABLE IF NOT EXISTS lockfast_tombstone (
  b     SMALLINT UNSIGNED NOT NULL,
  id    BINARY(16)        NOT NULL,
  owner VARBINARY(512)    NOT NULL, -- whose claims it refuses
  until BIGINT            NOT NULL,
  PRIMARY KEY (b, id, owner),
  KEY expiry (b, until)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC//

CREATE TABLE IF NOT EXISTS lockfast_attached (
  id    BINARY(16)     NOT NULL, -- of a claim, which may not exist
  owner VARBINARY(512) NOT NULL, -- the user name that logged in
  epoch BIGINT         NOT NULL, -- the number of the connection of the claim's client to the service
  until BIGINT         NOT NULL,
  PRIMARY KEY (id, owner),
  KEY expiry (until)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC//

CREATE TABLE IF NOT EXISTS lockfast_ear (
  slot  SMALLINT UNSIGNED NOT NULL PRIMARY KEY,
  n     BIGINT NOT NULL DEFAULT 0,           -- how many notes were written
  notes VARBINARY(1344) NOT NULL DEFAULT ''  -- the last 48 of them, the newest first, 28 bytes each: the id of
                                             -- a claim that was granted, its floor, and CRC32 of its owner.
                                             -- Others can make a claim of the same id in another bucket
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC//

CREATE TABLE IF NOT EXISTS lockfast_number (
  n SMALLINT UNSIGNED NOT NULL PRIMARY KEY -- from 0 to 1,023: the places of records in a batch
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC//

CREATE TABLE IF NOT EXISTS lockfast_broken (
  id     BINARY(16)      NOT NULL PRIMARY KEY, -- of the claim that was broken
  name   VARBINARY(512)  NOT NULL,
  at     BIGINT          NOT NULL,
  record VARBINARY(4096) NOT NULL,
  KEY name (name, at),
  KEY at (at)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC//

CREATE TABLE IF NOT EXISTS lockfast_operator (
  who   VARBINARY(512) NOT NULL, -- the user name with which an operator logs in
  whose VARBINARY(512) NOT NULL, -- the user name whose locks the operator may break; '%': everybody's
  PRIMARY KEY (who, whose)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC//

-- Into a bucket that was lost and is restored, the next operation looks.
INSERT IGNORE INTO lockfast_bucket (b, line, due)
SELECT x.d * 256 + y.d * 64 + z.d * 16 + u.d * 4 + v.d, {LINE},
  {NEVER} * (NOT EXISTS (SELECT 1 FROM lockfast_claim)) * (NOT EXISTS (SELECT 1 FROM lockfast_tombstone))
FROM (SELECT 0 d UNION SELECT 1 UNION SELECT 2 UNION SELECT 3) x
JOIN (SELECT 0 d UNION SELECT 1 UNION SELECT 2 UNION SELECT 3) y
JOIN (SELECT 0 d UNION SELECT 1 UNION SELECT 2 UNION SELECT 3) z
JOIN (SELECT 0 d UNION SELECT 1 UNION SELECT 2 UNION SELECT 3) u
JOIN (SELECT 0 d UNION SELECT 1 UNION SELECT 2 UNION SELECT 3) v//

INSERT IGNORE INTO lockfast_ear (slot) SELECT b FROM lockfast_bucket//

INSERT IGNORE INTO lockfast_number (n) SELECT b FROM lockfast_bucket//

-- Raise an error if the user who logged in may not end a claim of this owner. The owner of the claim may, and so
-- may the user who installed these procedures, and operators.
CREATE PROCEDURE lockfast_permit_v1(p_owner VARBINARY(512)) SQL SECURITY INVOKER READS SQL DATA
BEGIN
  DECLARE v_who VARBINARY(512) DEFAULT {WHO};
  DECLARE v_may BOOLEAN;
  DECLARE v_text VARCHAR(512);
  SELECT v_who IN (p_owner, {INSTALLER})
    OR EXISTS (SELECT 1 FROM lockfast_operator o WHERE o.who = v_who AND o.whose IN (p_owner, '%'))
  INTO v_may;
  IF NOT v_may THEN
    SET v_text = LEFT(CONCAT('the lock was acquired by user ', CONVERT(p_owner USING utf8mb4), ': ',
      CONVERT(v_who USING utf8mb4), ' may not end it'), 128);
    SIGNAL SQLSTATE '42000' SET MYSQL_ERRNO = 1227, MESSAGE_TEXT = v_text;
  END IF;
END//

-- Update the totals of a queue after claims were deleted from it, and grant waiters: see the part GRANT.
CREATE PROCEDURE lockfast_leave_v1(
  v_b SMALLINT UNSIGNED, v_name VARBINARY(512), d_claims INT, d_waiting INT, d_held BIGINT,
  l_ticket BIGINT, l_claims INT, l_waiting INT, l_held BIGINT, INOUT v_notes LONGBLOB
) SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
  DECLARE t_id, w_id BINARY(16);
  DECLARE t_owner, w_owner VARBINARY(512);
  DECLARE t_ticket, t_held, w_ticket, v_floor BIGINT;
  DECLARE t_kind, w_kind SMALLINT;
  DECLARE t_waits TINYINT;
  DECLARE t_weight, t_capacity, t_claims, t_waiting, w_weight, w_capacity INT;
  DECLARE v_none BOOLEAN;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_none = TRUE;
  {GRANT}
END//

-- Recompute the totals of a queue whose first claim waits, because somebody has deleted rows by hand. Then
-- grant the waiters that fit.
CREATE PROCEDURE lockfast_recount_v1(p_b SMALLINT UNSIGNED, p_name VARBINARY(512), INOUT o_notes LONGBLOB)
SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
  DECLARE v_last, v_held BIGINT;
  DECLARE v_claims, v_waiting INT;
  SELECT MAX(c.ticket), COUNT(*), SUM(c.waits), SUM(IF(c.waits, 0, c.weight))
  INTO v_last, v_claims, v_waiting, v_held FROM lockfast_claim c WHERE c.name = p_name;
  UPDATE lockfast_claim SET claims = v_claims, waiting = v_waiting, held = v_held
  WHERE b = p_b AND name = p_name AND ticket = v_last;
  CALL lockfast_leave_v1(p_b, p_name, 0, 0, 0, 0, 0, 0, 0, o_notes);
END//

-- Delete the expired claims and tombstones of a locked bucket, and grant the waiters that fit then. All expired
-- claims of a name go before the first waiter is granted, because that waiter may have expired too. Returns when the
-- next one of what is left expires.
CREATE PROCEDURE lockfast_sweep_v1(p_b SMALLINT UNSIGNED, p_now BIGINT, INOUT o_notes LONGBLOB, OUT o_due BIGINT)
SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
  DECLARE v_name VARBINARY(512);
  DECLARE v_held, l_ticket, l_held BIGINT;
  DECLARE v_claims, v_waiting, l_claims, l_waiting INT;
  DECLARE v_none BOOLEAN DEFAULT FALSE;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_none = TRUE;
  sweeping: LOOP
    SELECT c.name INTO v_name FROM lockfast_claim c FORCE INDEX (expiry)
    WHERE c.b = p_b AND c.expires <= p_now ORDER BY c.expires LIMIT 1;
    IF v_none THEN
      LEAVE sweeping;
    END IF;
    SELECT COUNT(*), SUM(c.waits), SUM(IF(c.waits, 0, c.weight)), MAX(c.ticket)
    INTO v_claims, v_waiting, v_held, l_ticket FROM lockfast_claim c FORCE INDEX (expiry)
    WHERE c.b = p_b AND c.expires <= p_now AND c.name = v_name;
    SELECT c.claims, c.waiting, c.held INTO l_claims, l_waiting, l_held
    FROM lockfast_claim c FORCE INDEX (expiry)
    WHERE c.b = p_b AND c.expires <= p_now AND c.name = v_name AND c.ticket = l_ticket LIMIT 1;
    DELETE FROM lockfast_claim WHERE b = p_b AND expires <= p_now AND name = v_name;
    CALL lockfast_leave_v1(
      p_b, v_name, v_claims, v_waiting, v_held, l_ticket, l_claims, l_waiting, l_held, o_notes);
  END LOOP;
  DELETE FROM lockfast_tombstone WHERE b = p_b AND until <= p_now;
  SELECT LEAST(
    IFNULL((SELECT MIN(c.expires) FROM lockfast_claim c WHERE c.b = p_b), {NEVER}),
    IFNULL((SELECT MIN(t.until) FROM lockfast_tombstone t WHERE t.b = p_b), {NEVER})) INTO o_due;
END//

-- Return the standing of a claim as words: ticket, granted, time left, ahead, behind, floor. For a waiter,
-- these follow: the time until the next expiry in the bucket (only for the first waiter; '-' for others), and
-- the head's id, its ticket, and its payload in hexadecimal digits. NULL if the claim is gone. The kind
-- alone if the claim is of another format.
--
-- `ahead` is exact for the first hundred and for the first waiter, and if no claim has left the queue from
-- its middle. Otherwise it is an upper bound, because claims that have left count as if they were ahead.
--
-- p_room  how many bytes of the head's payload the reply has room for. A longer payload is left out
CREATE PROCEDURE lockfast_standing_v1(
  p_b SMALLINT UNSIGNED, p_name VARBINARY(512), p_id BINARY(16), p_now BIGINT, p_room BIGINT,
  INOUT o_notes LONGBLOB, OUT o_standing LONGBLOB
) SQL SECURITY INVOKER MODIFIES SQL DATA
me: BEGIN
  DECLARE m_name VARBINARY(512);
  DECLARE m_kind, h_kind, t_kind SMALLINT;
  DECLARE m_waits, h_waits TINYINT;
  DECLARE h_id BINARY(16);
  DECLARE m_ticket, m_expires, m_place, h_ticket, h_place, t_place, f_ticket, v_ahead, v_next, v_few BIGINT;
  DECLARE t_claims, t_waiting INT;
  DECLARE v_payload MEDIUMBLOB;
  DECLARE v_none BOOLEAN DEFAULT FALSE;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_none = TRUE;
  SET o_standing = NULL;
  SELECT c.name, c.kind, c.ticket, c.waits, c.expires, c.place
  INTO m_name, m_kind, m_ticket, m_waits, m_expires, m_place
  FROM lockfast_claim c WHERE c.b = p_b AND c.id = p_id;
  IF v_none OR m_name <> p_name THEN
    LEAVE me;
  END IF;
  IF m_kind NOT BETWEEN 1 AND 3 THEN
    SET o_standing = m_kind;
    LEAVE me;
  END IF;
  SELECT c.id, c.ticket, c.kind, c.waits, c.place INTO h_id, h_ticket, h_kind, h_waits, h_place
  FROM lockfast_claim c FORCE INDEX (queue) WHERE c.name = p_name ORDER BY c.waits, c.ticket LIMIT 1;
  IF h_waits AND h_kind BETWEEN 1 AND 3 THEN
    CALL lockfast_recount_v1(p_b, p_name, o_notes);
    SELECT c.waits INTO m_waits FROM lockfast_claim c WHERE c.b = p_b AND c.id = p_id;
  END IF;
  SELECT c.place, c.kind, c.claims, c.waiting INTO t_place, t_kind, t_claims, t_waiting
  FROM lockfast_claim c FORCE INDEX (queue)
  WHERE c.name = p_name ORDER BY c.waits DESC, c.ticket DESC LIMIT 1;
  SET v_ahead = m_place - h_place;
  IF v_ahead > 0 AND t_place - h_place + 1 <> t_claims THEN
    SELECT COUNT(*) INTO v_few FROM (
      SELECT c.ticket FROM lockfast_claim c FORCE INDEX (queue)
      WHERE c.name = p_name AND (c.waits < m_waits OR c.waits = m_waits AND c.ticket < m_ticket)
      ORDER BY c.waits, c.ticket LIMIT 101
    ) few;
    SET v_ahead = IF(v_few <= 100, v_few, LEAST(v_ahead, t_claims - 1));
  END IF;
  IF NOT m_waits THEN
    SET o_standing = CONCAT_WS(' ', m_ticket, 't', m_expires - p_now, v_ahead, t_waiting, h_ticket);
    LEAVE me;
  END IF;
  SELECT c.ticket INTO f_ticket FROM lockfast_claim c FORCE INDEX (queue)
  WHERE c.name = p_name AND c.waits = 1 ORDER BY c.ticket LIMIT 1;
  IF m_ticket = f_ticket THEN
    SET v_ahead = t_claims - t_waiting;
    SELECT c.expires - p_now INTO v_next FROM lockfast_claim c FORCE INDEX (expiry)
    WHERE c.b = p_b ORDER BY c.expires LIMIT 1;
  END IF;
  SELECT IF(LENGTH(c.payload) <= p_room, c.payload, '') INTO v_payload
  FROM lockfast_claim c WHERE c.b = p_b AND c.id = h_id;
  SET o_standing = CONCAT_WS(' ', m_ticket, 'f', m_expires - p_now, v_ahead, t_claims - v_ahead - 1, h_ticket,
    IFNULL(v_next, '-'), LOWER(HEX(h_id)), h_ticket, HEX(v_payload));
END//

-- Write notes of grants, and wake the clients: see the part KILL. Each client's notes are a transaction of their
-- own, after the one that granted, because two transactions that each lock several rows of `ear` would deadlock.
CREATE PROCEDURE lockfast_tell_v1(p_notes LONGBLOB) SQL SECURITY INVOKER MODIFIES SQL DATA
BEGIN
  DECLARE v_client BINARY(11);
  DECLARE v_run LONGBLOB;
  DECLARE v_connection BIGINT;
  DECLARE i INT DEFAULT 1;
  -- The operation is committed, so nothing that fails here may be reported as its failure.
  DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN END;
  WHILE i < LENGTH(p_notes) DO
    SET v_client = SUBSTR(p_notes, i, 11), v_run = '';
    WHILE SUBSTR(p_notes, i, 11) = v_client DO
      SET v_run = CONCAT(v_run, SUBSTR(p_notes, i, 28)), i = i + 28;
    END WHILE;
    -- Also if the session is read-only. Without autocommit, the row would stay locked, and releases of others wait.
    START TRANSACTION READ WRITE;
    UPDATE lockfast_ear SET n = n + LENGTH(v_run) DIV 28, notes = LEFT(CONCAT(v_run, notes), 1344)
    WHERE slot = CRC32(v_client) % 1024;
    COMMIT AND NO CHAIN NO RELEASE;
    {KILL}
  END WHILE;
END//

-- Append claims, or find them by their ids, and return the time and the standing of each.
--
-- p_base      added to the clock in new tickets
-- p_asks      records of 110 bytes: the id (16), length (3 digits) and place (7) of the name, kind (3), whether it may
--             wait (1), capacity (10), weight (10), ttl (16), wait_ttl (16), its latest time by this server's clock
--             (16), length (5) and place (7) of the payload
-- p_names     the names
-- p_payloads  the payloads
--
-- Returns a line with the time and 16 characters for each claim. If these are digits, they are its ticket: it was
-- granted at once, nobody else is in its queue, and it has all of its ttl. If the last one is a minus, it has a line
-- of its own: the time, and the standing. Ticket 0 means that the claim did not fit and was not to wait. The time
-- alone means that the id is dead. The time and one number mean that the queue is of that kind, and not of the kind
-- of the claim.
CREATE PROCEDURE lockfast_claim_v1(p_base BIGINT, p_asks LONGBLOB, p_names LONGBLOB, p_payloads LONGBLOB)
SQL SECURITY DEFINER MODIFIES SQL DATA
BEGIN
  DECLARE v_head VARBINARY(110);
  DECLARE v_name VARBINARY(999);
  DECLARE v_who VARBINARY(512) DEFAULT {WHO};
  DECLARE v_payload MEDIUMBLOB;
  DECLARE v_id, t_id, h_id BINARY(16);
  DECLARE v_kind, t_kind SMALLINT;
  DECLARE v_queue, v_fits, t_waits TINYINT;
  DECLARE v_capacity, v_weight, v_ttl, v_wait_ttl, v_late, v_payloads BIGINT;
  DECLARE v_b, v_locked, v_names, i INT;
  DECLARE v_size INT DEFAULT 110;
  DECLARE v_count INT DEFAULT LENGTH(p_asks) DIV 110;
  DECLARE v_last, v_seen, v_due, v_now, v_ticket, t_place, t_held, h_ticket BIGINT;
  DECLARE t_claims, t_waiting INT;
  DECLARE v_line, v_was VARBINARY(64);
  DECLARE v_dead, v_found, v_told, v_distinct BOOLEAN;
  DECLARE v_client BINARY(11);
  DECLARE v_connection BIGINT;
  DECLARE v_notes, v_answer, v_standing, v_tickets LONGBLOB;
  DECLARE v_none BOOLEAN DEFAULT FALSE;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_none = TRUE;
  -- A lock wait that timed out would else roll back one statement only.
  DECLARE EXIT HANDLER FOR SQLEXCEPTION
  BEGIN
    ROLLBACK;
    RESIGNAL;
  END;
  {ENTER}
  SET v_line = {LINE}, v_notes = '';
  IF v_count BETWEEN 3 AND 1024 THEN
    SET SESSION group_concat_max_len = 16384;
    SET i = 1;
    WHILE i <= v_count DO
      {CLAIM}
      SET i = i + 1;
    END WHILE;
    -- Claims on names without claims are appended together, because statements for each cost several times as much.
    -- For two or fewer, these statements would cost more.
    SELECT COUNT(DISTINCT CRC32({NAME})) = v_count AND COUNT(DISTINCT {ID}) = v_count, MIN({TTL})
    INTO v_distinct, v_ttl {LOCK}
    SET v_now = {NOW};
    SELECT GROUP_CONCAT(
      IF(v_distinct AND k.line = v_line AND v_now <= {LATE} AND c.id IS NULL
        AND NOT EXISTS (SELECT 1 FROM lockfast_claim o FORCE INDEX (queue) WHERE o.name = {NAME})
        AND NOT EXISTS (SELECT 1 FROM lockfast_tombstone t WHERE t.b = k.b)
        AND GREATEST(k.last + 1, v_now + p_base) + v_count <= 9007199254740992 AND {QUIET},
        LPAD(GREATEST(k.last + 1, v_now + p_base) + r.n, 16, '0'), '000000000000000-')
      ORDER BY r.n SEPARATOR '') INTO v_tickets
    FROM {EACH} STRAIGHT_JOIN lockfast_bucket k ON k.b = {BUCKET}
    LEFT JOIN lockfast_claim c ON c.b = k.b AND c.id = {ID};
  END IF;
  IF LENGTH(v_tickets) <=> v_count * 16 THEN
    UPDATE {EACH} STRAIGHT_JOIN lockfast_bucket k ON k.b = {BUCKET}
    SET k.last = GREATEST(k.last + 1, v_now + p_base) + v_count - 1, k.seen = v_now, k.due = LEAST(k.due, v_now + v_ttl)
    WHERE SUBSTR(v_tickets, r.n * 16 + 16, 1) <> '-';
    INSERT INTO lockfast_claim
      (b, id, name, ticket, waits, kind, capacity, weight, ttl, wait_ttl, expires, place, claims, waiting, held,
       payload, owner)
    SELECT {BUCKET}, {ID}, {NAME}, CAST(SUBSTR(v_tickets, r.n * 16 + 1, 16) AS SIGNED), 0, {KIND}, {CAPACITY},
      {WEIGHT}, {TTL}, {WAIT_TTL}, v_now + {TTL}, 1, 1, 0, {WEIGHT}, {PAYLOAD}, v_who
    FROM {EACH} WHERE SUBSTR(v_tickets, r.n * 16 + 16, 1) <> '-';
  ELSE -- also if a row of the buckets is missing
    SET v_tickets = REPEAT('000000000000000-', v_count);
  END IF;
  SET v_answer = CONCAT(IFNULL(v_now, 0), ' ', v_tickets, '\n'), i = LOCATE('-', v_tickets) DIV 16;
  WHILE i > 0 DO
    {CLAIM}
    SET i = LOCATE('-', v_tickets, i * 16 + 1) DIV 16;
    SET v_b = CRC32(v_name) % 1024;
    IF NOT v_b <=> v_locked THEN
      SET v_none = FALSE, v_locked = v_b;
      SELECT k.last, k.seen, k.due, k.line INTO v_last, v_seen, v_due, v_was
      FROM lockfast_bucket k WHERE k.b = v_b FOR UPDATE;
      {CLOCK}
    END IF;
    -- On another server, a replica was promoted that may have missed tickets, and whose clock may be behind. An
    -- hour is more than either. The time since the bucket was used is added, because the replica may have missed
    -- that the server before it had already added an hour to the same number, some time ago.
    IF v_was <> v_line THEN
      SET v_last = GREATEST(v_last + GREATEST(v_now - v_seen, 0), v_now + p_base) + 3600000000, v_was = v_line;
    END IF;
    SET v_ticket = GREATEST(v_last + 1, v_now + p_base), v_last = v_ticket,
      v_due = LEAST(v_due, v_now + LEAST(v_ttl, v_wait_ttl));
    UPDATE lockfast_bucket SET last = v_ticket, seen = v_now, due = v_due, line = v_line WHERE b = v_b;
    SET v_standing = NULL;
    one: BEGIN
      SELECT COUNT(*) INTO v_dead FROM lockfast_tombstone t
      WHERE t.b = v_b AND t.id = v_id AND t.owner = v_who AND t.until > v_now;
      SELECT COUNT(*) INTO v_found FROM lockfast_claim c WHERE c.b = v_b AND c.id = v_id;
      IF v_dead OR v_now > v_late THEN
        LEAVE one;
      END IF;
      SET v_none = FALSE, v_fits = 1, t_place = 0, t_claims = 0, t_waiting = 0, t_held = 0;
      SELECT c.id, c.kind, c.waits, c.place, c.claims, c.waiting, c.held
      INTO t_id, t_kind, t_waits, t_place, t_claims, t_waiting, t_held
      FROM lockfast_claim c FORCE INDEX (queue)
      WHERE c.name = v_name ORDER BY c.waits DESC, c.ticket DESC LIMIT 1;
      IF NOT v_none THEN
        IF t_kind <> v_kind THEN -- of another kind, or of another format
          SET v_standing = t_kind;
          LEAVE one;
        END IF;
        IF v_found THEN
          -- A claim that another user has made of the same id is not taken for this one.
          SELECT COUNT(*) INTO v_found FROM lockfast_claim c
          WHERE c.b = v_b AND c.id = v_id AND c.owner = v_who;
          IF v_found THEN
            CALL lockfast_standing_v1(v_b, v_name, v_id, v_now, {ROOM}, v_notes, v_standing);
          END IF;
          LEAVE one;
        END IF;
        SET v_fits = NOT t_waits AND t_held + v_weight <= v_capacity;
        IF NOT v_fits AND NOT v_queue THEN
          SELECT c.id, c.ticket, IF(LENGTH(c.payload) <= {ROOM}, c.payload, '')
          INTO h_id, h_ticket, v_payload FROM lockfast_claim c FORCE INDEX (queue)
          WHERE c.name = v_name ORDER BY c.waits, c.ticket LIMIT 1;
          SET v_standing =
            CONCAT_WS(' ', 0, 'f', 0, t_claims, 0, 0, '-', LOWER(HEX(h_id)), h_ticket, HEX(v_payload));
          LEAVE one;
        END IF;
      ELSE
        SET t_id = NULL;
      END IF;
      IF v_ticket >= 9007199254740992 THEN
        SIGNAL SQLSTATE '45000'
          SET MESSAGE_TEXT = 'lockfast: the next token would reach 2^53: the clock or token_base is wrong';
      END IF;
      IF v_found THEN
        LEAVE one; -- the id is in use on another name, so it is dead on this one
      END IF;
      INSERT INTO lockfast_claim
        (b, id, name, ticket, waits, kind, capacity, weight, ttl, wait_ttl, expires, place, claims, waiting,
         held, payload, owner)
      VALUES
        (v_b, v_id, v_name, v_ticket, 1 - v_fits, v_kind, v_capacity, v_weight, v_ttl, v_wait_ttl,
         v_now + IF(v_fits, v_ttl, v_wait_ttl), t_place + 1, t_claims + 1, t_waiting + 1 - v_fits,
         t_held + IF(v_fits, v_weight, 0), v_payload, v_who);
      IF t_id IS NULL THEN
        SET v_standing = CONCAT_WS(' ', v_ticket, 't', v_ttl, 0, 0, v_ticket);
      ELSE
        CALL lockfast_standing_v1(v_b, v_name, v_id, v_now, {ROOM}, v_notes, v_standing);
      END IF;
    END;
    SET v_answer = CONCAT(v_answer, CONCAT_WS(' ', v_now, v_standing), '\n');
  END WHILE;
  {LEAVE}
END//

-- Extend claims to their full ttl or wait_ttl from now, never shorten them, and return their standings. A claim
-- of another format is not extended.
--
-- p_asks  records of 19 bytes, each followed by the name: the length of the name (3 digits), and the id
--
-- Returns a line of words for each: the time, and the standing unless the claim is gone.
CREATE PROCEDURE lockfast_renew_v1(p_asks LONGBLOB)
SQL SECURITY DEFINER MODIFIES SQL DATA
BEGIN
  DECLARE v_name VARBINARY(999);
  DECLARE v_id, t_id BINARY(16);
  DECLARE v_b, v_locked, v_names INT;
  DECLARE v_line VARBINARY(64);
  DECLARE v_seen, v_due, v_now, t_ticket, t_expires BIGINT;
  DECLARE t_kind SMALLINT;
  DECLARE t_waits TINYINT;
  DECLARE t_claims INT;
  DECLARE v_told BOOLEAN;
  DECLARE v_client BINARY(11);
  DECLARE v_connection BIGINT;
  DECLARE v_notes, v_answer, v_standing LONGBLOB;
  DECLARE i INT DEFAULT 1;
  DECLARE v_none BOOLEAN DEFAULT FALSE;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_none = TRUE;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION
  BEGIN
    ROLLBACK;
    RESIGNAL;
  END;
  {ENTER}
  SET v_line = {LINE}, v_notes = '', v_answer = '';
  WHILE i <= LENGTH(p_asks) DO
    SET v_names = SUBSTR(p_asks, i, 3), v_id = SUBSTR(p_asks, i + 3, 16),
      v_name = SUBSTR(p_asks, i + 19, v_names), i = i + 19 + v_names, v_b = CRC32(v_name) % 1024;
    {RENEWAL}
    IF NOT v_b <=> v_locked THEN
      SET v_none = FALSE, v_locked = v_b;
      SELECT k.seen, k.due INTO v_seen, v_due FROM lockfast_bucket k WHERE k.b = v_b FOR UPDATE;
      {CLOCK}
      {SEEN}
    END IF;
    UPDATE lockfast_claim SET expires = GREATEST(expires, v_now + IF(waits, wait_ttl, ttl))
    WHERE b = v_b AND id = v_id AND name = v_name AND kind BETWEEN 1 AND 3;
    -- A procedure that is called costs more than all of this, so a sole holder is answered here.
    SET v_none = FALSE, v_standing = NULL;
    SELECT c.id, c.ticket, c.kind, c.waits, c.expires, c.claims
    INTO t_id, t_ticket, t_kind, t_waits, t_expires, t_claims FROM lockfast_claim c FORCE INDEX (queue)
    WHERE c.name = v_name ORDER BY c.waits DESC, c.ticket DESC LIMIT 1;
    IF NOT v_none AND t_id = v_id AND t_claims = 1 AND NOT t_waits AND t_kind BETWEEN 1 AND 3 THEN
      SET v_standing = CONCAT_WS(' ', t_ticket, 't', t_expires - v_now, 0, 0, t_ticket);
    ELSEIF NOT v_none THEN
      CALL lockfast_standing_v1(v_b, v_name, v_id, v_now, {ROOM}, v_notes, v_standing);
    END IF;
    SET v_answer = CONCAT(v_answer, CONCAT_WS(' ', v_now, v_standing), '\n');
  END WHILE;
  {LEAVE}
END//

-- Remove claims for good, and wake the waiters that this lets in. A claim of another format stays, and counts as
-- not there. Raises an error for a claim that permit_v1 does not let the user end.
--
-- p_asks   records of 42 bytes: the id (16), length (3 digits) and place (7) of the name, and 16 digits. These are 0 or,
--          if a copy may still be under way, the time until which its tombstone must stay, by this server's clock.
--          The tombstone stays for at least 11 seconds, for at most a day, and is never shortened. No copy may be
--          applied later than 10 seconds, the longest wait, after it was sent. A client that breaks another's claim
--          knows neither when that was, nor the clock at that time
-- p_names  the names
--
-- Returns whether each claim was there, as letters t and f.
CREATE PROCEDURE lockfast_resign_v1(p_asks LONGBLOB, p_names LONGBLOB)
SQL SECURITY DEFINER MODIFIES SQL DATA
BEGIN
  DECLARE v_name VARBINARY(999);
  DECLARE v_head VARBINARY(42);
  DECLARE v_owner VARBINARY(512);
  DECLARE v_who VARBINARY(512) DEFAULT {WHO};
  DECLARE v_id BINARY(16);
  DECLARE v_b, v_locked, v_names, i INT;
  DECLARE v_size INT DEFAULT 42;
  DECLARE v_count INT DEFAULT LENGTH(p_asks) DIV 42;
  DECLARE v_line VARBINARY(64);
  DECLARE v_until, v_seen, v_due, v_now BIGINT;
  DECLARE d_claims, d_waiting, l_claims, l_waiting INT;
  DECLARE d_held, l_ticket, l_held BIGINT;
  DECLARE t_id, w_id BINARY(16);
  DECLARE t_owner, w_owner VARBINARY(512);
  DECLARE t_ticket, t_held, w_ticket, v_floor BIGINT;
  DECLARE t_kind, w_kind SMALLINT;
  DECLARE t_waits TINYINT;
  DECLARE t_weight, t_capacity, t_claims, t_waiting, w_weight, w_capacity INT;
  DECLARE v_told, v_distinct BOOLEAN;
  DECLARE v_client BINARY(11);
  DECLARE v_connection BIGINT;
  DECLARE v_notes, v_answer LONGBLOB;
  DECLARE v_none BOOLEAN DEFAULT FALSE;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_none = TRUE;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION
  BEGIN
    ROLLBACK;
    RESIGNAL;
  END;
  {ENTER}
  SET v_line = {LINE}, v_notes = '';
  IF v_count BETWEEN 3 AND 1024 THEN
    SET SESSION group_concat_max_len = 16384;
    SET i = 1;
    WHILE i <= v_count DO
      {RESIGNATION}
      SET i = i + 1;
    END WHILE;
    -- Claims that are alone in their queues are removed together: nobody is to be granted then.
    SELECT COUNT(DISTINCT {ID}) = v_count INTO v_distinct {LOCK}
    SET v_now = {NOW};
    SELECT GROUP_CONCAT(
      IF(v_distinct AND k.line = v_line AND {UNTIL} = 0 AND c.owner = v_who
        AND c.name = {NAME} AND c.kind BETWEEN 1 AND 3
        AND NOT EXISTS (
          SELECT 1 FROM lockfast_claim o FORCE INDEX (queue) WHERE o.name = c.name AND o.id <> c.id)
        AND {QUIET}, 't', '-')
      ORDER BY r.n SEPARATOR '') INTO v_answer
    FROM {EACH} STRAIGHT_JOIN lockfast_bucket k ON k.b = {BUCKET}
    LEFT JOIN lockfast_claim c ON c.b = k.b AND c.id = {ID};
  END IF;
  IF LENGTH(v_answer) <=> v_count THEN
    UPDATE {EACH} STRAIGHT_JOIN lockfast_bucket k ON k.b = {BUCKET} SET k.seen = v_now
    WHERE SUBSTR(v_answer, r.n + 1, 1) = 't';
    DELETE c FROM {EACH} STRAIGHT_JOIN lockfast_claim c ON c.b = {BUCKET} AND c.id = {ID}
    WHERE SUBSTR(v_answer, r.n + 1, 1) = 't';
  ELSE -- also if a row of the buckets is missing
    SET v_answer = REPEAT('-', v_count);
  END IF;
  SET i = LOCATE('-', v_answer);
  WHILE i > 0 DO
    {RESIGNATION}
    {REMOVAL}
    SET i = LOCATE('-', v_answer);
  END WHILE;
  {LEAVE}
END//

-- Store to which connection of the service claims belong, unless they belong to a later one. A client has such
-- claims only if it asks for their end with its connection.
--
-- p_asks  records of 48 bytes: the id (16), the number of the connection (16 digits), and for how many µs to remember
--         it (16)
--
-- Returns whether each claim belongs to this connection now, as letters t and f.
CREATE PROCEDURE lockfast_attach_v1(p_asks LONGBLOB)
SQL SECURITY DEFINER MODIFIES SQL DATA
BEGIN
  DECLARE v_who VARBINARY(512) DEFAULT {WHO};
  DECLARE v_head VARBINARY(48);
  DECLARE v_id BINARY(16);
  DECLARE v_epoch, v_life, v_latest, v_now BIGINT;
  DECLARE i INT DEFAULT 1;
  DECLARE v_count INT DEFAULT LENGTH(p_asks) DIV 48;
  DECLARE v_answer LONGBLOB DEFAULT '';
  DECLARE EXIT HANDLER FOR SQLEXCEPTION
  BEGIN
    ROLLBACK;
    RESIGNAL;
  END;
  {ENTER}
  SET v_now = {NOW};
  WHILE i <= v_count DO
    SET v_head = SUBSTR(p_asks, i * 48 - 47, 48);
    SET v_id = SUBSTR(v_head, 1, 16), v_epoch = SUBSTR(v_head, 17, 16), v_life = SUBSTR(v_head, 33, 16);
    IF NOT (v_epoch > 0 AND v_life BETWEEN 1 AND 172800000000 AND LENGTH(p_asks) = v_count * 48) THEN
      SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'lockfast: not a connection';
    END IF;
    -- The second assignment sees the first one. The row is written in any case: Galera finds conflicts by that.
    INSERT INTO lockfast_attached (id, owner, epoch, until) VALUES (v_id, v_who, v_epoch, v_now + v_life)
    ON DUPLICATE KEY UPDATE epoch = IF(until > v_now, GREATEST(epoch, v_epoch), v_epoch),
      until = IF(epoch = v_epoch, v_now + v_life, until + 1);
    SELECT a.epoch INTO v_latest FROM lockfast_attached a WHERE a.id = v_id AND a.owner = v_who;
    SET v_answer = CONCAT(v_answer, IF(v_latest = v_epoch, 't', 'f')), i = i + 1;
  END WHILE;
  DELETE FROM lockfast_attached WHERE until <= v_now ORDER BY until LIMIT 64;
  COMMIT AND NO CHAIN NO RELEASE;
  SELECT v_answer;
END//

-- Remove those of the claims that belong to these connections, as resign_v1 does. The row in `attached` is deleted
-- first, so that no other connection can take the claim meanwhile.
--
-- p_asks, p_names  as for resign_v1
-- p_epochs         for each claim the number of its connection (16 digits)
--
-- Returns whether each claim was removed, as letters t and f.
CREATE PROCEDURE lockfast_depart_v1(p_asks LONGBLOB, p_names LONGBLOB, p_epochs LONGBLOB)
SQL SECURITY DEFINER MODIFIES SQL DATA
BEGIN
  DECLARE v_name VARBINARY(999);
  DECLARE v_head VARBINARY(42);
  DECLARE v_owner VARBINARY(512);
  DECLARE v_who VARBINARY(512) DEFAULT {WHO};
  DECLARE v_id BINARY(16);
  DECLARE v_b, v_locked, v_names INT;
  DECLARE i INT DEFAULT 1;
  DECLARE v_count INT DEFAULT LENGTH(p_asks) DIV 42;
  DECLARE v_line VARBINARY(64);
  DECLARE v_until, v_seen, v_due, v_now BIGINT;
  DECLARE d_claims, d_waiting, l_claims, l_waiting INT;
  DECLARE d_held, l_ticket, l_held BIGINT;
  DECLARE t_id, w_id BINARY(16);
  DECLARE t_owner, w_owner VARBINARY(512);
  DECLARE t_ticket, t_held, w_ticket, v_floor BIGINT;
  DECLARE t_kind, w_kind SMALLINT;
  DECLARE t_waits TINYINT;
  DECLARE t_weight, t_capacity, t_claims, t_waiting, w_weight, w_capacity INT;
  DECLARE v_told BOOLEAN;
  DECLARE v_client BINARY(11);
  DECLARE v_connection BIGINT;
  DECLARE v_notes, v_answer LONGBLOB;
  DECLARE v_none BOOLEAN DEFAULT FALSE;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_none = TRUE;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION
  BEGIN
    ROLLBACK;
    RESIGNAL;
  END;
  {ENTER}
  SET v_line = {LINE}, v_notes = '', v_answer = REPEAT('f', v_count);
  WHILE i <= v_count DO
    {RESIGNATION}
    DELETE FROM lockfast_attached
    WHERE id = v_id AND owner = v_who AND until > {NOW}
      AND epoch = CAST(SUBSTR(p_epochs, i * 16 - 15, 16) AS SIGNED);
    IF ROW_COUNT() = 1 THEN
      {REMOVAL}
    END IF;
    SET i = i + 1;
  END WHILE;
  {LEAVE}
END//

-- Return the number of notes that the row of a slot has had, its last notes, and what shows in a note that the
-- claim is of the user who asks. Sleep for half a second if there is nothing new. To look and to sleep are one statement: between two, a kill would be lost.
CREATE PROCEDURE lockfast_ear_v1(p_slot SMALLINT UNSIGNED, p_seen BIGINT)
SQL SECURITY DEFINER READS SQL DATA
BEGIN
  {LOOK}
  SELECT e.n, e.notes, CRC32({WHO}), IF(e.n = p_seen, {PAUSE}, 0) FROM lockfast_ear e WHERE e.slot = p_slot;
END//

-- The same for an engine that hears many clients, which returns only the rows that have changed.
--
-- p_seen  a JSON array with an array of two numbers for each slot: the slot, and how many of its notes were read
CREATE PROCEDURE lockfast_ears_v1(p_seen LONGTEXT CHARACTER SET utf8mb4)
SQL SECURITY DEFINER READS SQL DATA
BEGIN
  DECLARE v_pause INT;
  SELECT IF(EXISTS (
    SELECT 1
    FROM JSON_TABLE(p_seen, '$[*]' COLUMNS (slot SMALLINT UNSIGNED PATH '$[0]', n BIGINT PATH '$[1]')) s
    JOIN lockfast_ear e ON e.slot = s.slot WHERE e.n <> s.n
  ), 0, {PAUSE}) INTO v_pause;
  SELECT e.slot, e.n, e.notes, CRC32({WHO})
  FROM JSON_TABLE(p_seen, '$[*]' COLUMNS (slot SMALLINT UNSIGNED PATH '$[0]', n BIGINT PATH '$[1]')) s
  JOIN lockfast_ear e ON e.slot = s.slot WHERE e.n <> s.n LIMIT 1024;
END//

-- Wake a client as a grant does, and return an empty text. If the user who installed these procedures may not do
-- that, return that user. A grant ignores this, but `guarantees` tells it.
CREATE PROCEDURE lockfast_wake_v1(p_client BINARY(11)) SQL SECURITY DEFINER READS SQL DATA
BEGIN
  DECLARE v_connection BIGINT DEFAULT IS_USED_LOCK(CONCAT('lockfast_', LOWER(HEX(p_client))));
  DECLARE EXIT HANDLER FOR 1095 SELECT CURRENT_USER();
  IF v_connection <> CONNECTION_ID() AND @@thread_handling <> 'pool-of-threads' THEN
    KILL QUERY v_connection;
  END IF;
  SELECT '';
END//

-- Keep the record of a break: the newest 16 of a name, for a day. Records are only for people to read. Every
-- lock user can write one, except of a claim that lives and that permit_v1 does not let the user end. The first
-- record of a claim counts.
CREATE PROCEDURE lockfast_record_v1(p_name VARBINARY(999), p_id BINARY(16), p_record VARBINARY(9999))
SQL SECURITY DEFINER MODIFIES SQL DATA
BEGIN
  DECLARE v_now, v_oldest BIGINT;
  DECLARE v_owner VARBINARY(512) DEFAULT {WHO};
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_oldest = NULL;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION
  BEGIN
    ROLLBACK;
    RESIGNAL;
  END;
  {ENTER}
  IF NOT (LENGTH(p_name) BETWEEN 1 AND 512 AND LENGTH(p_record) <= 4096 AND p_id IS NOT NULL)
    OR p_name IS NULL OR p_record IS NULL THEN
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'lockfast: not a record';
  END IF;
  SELECT c.owner INTO v_owner FROM lockfast_claim c
  WHERE c.b = CRC32(p_name) % 1024 AND c.id = p_id AND c.name = p_name;
  CALL lockfast_permit_v1(v_owner);
  SET v_now = {NOW};
  INSERT IGNORE INTO lockfast_broken (id, name, at, record) VALUES (p_id, p_name, v_now, p_record);
  DELETE FROM lockfast_broken WHERE at < v_now - 86400000000 LIMIT 100;
  SELECT k.at INTO v_oldest FROM lockfast_broken k WHERE k.name = p_name ORDER BY k.at DESC LIMIT 16, 1;
  IF v_oldest IS NOT NULL THEN
    DELETE FROM lockfast_broken WHERE name = p_name AND at <= v_oldest;
  END IF;
  COMMIT AND NO CHAIN NO RELEASE;
END//

-- Return the records of a name, the newest first.
CREATE PROCEDURE lockfast_records_v1(p_name VARBINARY(999))
SQL SECURITY DEFINER READS SQL DATA
BEGIN
  {LOOK}
  SELECT k.record FROM lockfast_broken k
  WHERE k.name = p_name AND k.at > {NOW} - 86400000000 ORDER BY k.at DESC LIMIT 16;
END//

-- Return the claims on one name. If `p_below` is given, return those on the names from `p_name` to below it, and
-- only those behind (p_waits, p_ticket), if these are given too. The client must check the kind before it reads
-- anything else of a row.
CREATE PROCEDURE lockfast_show_v1(
  p_name VARBINARY(999), p_below VARBINARY(999), p_waits TINYINT, p_ticket BIGINT, p_most INT
) SQL SECURITY DEFINER READS SQL DATA
BEGIN
  DECLARE v_now BIGINT DEFAULT {NOW};
  {LOOK}
  SET p_most = LEAST(p_most, 1000);
  IF p_below IS NULL THEN
    SELECT c.name, LOWER(HEX(c.id)), c.ticket, IF(c.waits, 'f', 't'), c.kind, c.weight, c.capacity,
           c.expires - v_now, c.payload
    FROM lockfast_claim c FORCE INDEX (queue) WHERE c.name = p_name AND c.expires > v_now
    ORDER BY c.waits, c.ticket LIMIT p_most;
  ELSE
    SET p_waits = IFNULL(p_waits, 0), p_ticket = IFNULL(p_ticket, -1);
    SELECT c.name, LOWER(HEX(c.id)), c.ticket, IF(c.waits, 'f', 't'), c.kind, c.weight, c.capacity,
           c.expires - v_now, c.payload
    FROM lockfast_claim c FORCE INDEX (queue)
    WHERE c.name >= p_name AND c.name < p_below AND c.expires > v_now
      AND (c.name > p_name OR c.waits > p_waits OR c.waits = p_waits AND c.ticket > p_ticket)
    ORDER BY c.name, c.waits, c.ticket LIMIT p_most;
  END IF;
END//
