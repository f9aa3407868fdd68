-- The schema of the guard for MariaDB and MySQL. Statements are separated by lines of //.
--
-- mark  one row per lock: the highest token that was seen, and the id of the claim with that token.
--       Rows are never deleted: without its mark, a lock would admit stale holders again.
--
-- Refusals are SIGNALs with SQLSTATEs of their own. Drivers drop the SQLSTATE, so the message repeats it. A
-- message has at most 128 characters on MySQL.
--   LF001  the token is stale. The message has the token of the mark and the id of the refused claim
--   LF002  no token was shown
--   LF003  the connection is in autocommit, so there is no transaction that could be guarded
--   LF004  the guarded transaction has ended
--   LF005  the transaction's snapshot is older than the last write under the lock
--   LF006  the connection is in a transaction already
--
-- Leases are passed as text, because there are no arrays. Each is written as
--   the lock's name in hexadecimal, token, id, floor, 1 for a reader or 0;
--
-- Session variables. They do not end with a transaction, so forget_v1 clears them at the end of a block.
--   @lockfast_shown  the leases of the open block, which the triggers read
--   @lockfast_waits  the timeouts that the session had before
--   @lockfast_name, @lockfast_token, @lockfast_id  a lease that a program without the guard shows
--
-- Rights: a writer has EXECUTE on the procedures, and no right to the marks. They run as their definer, and
-- all of them apply the rule. So a writer can raise a mark, and never lower or delete one.

CREATE DATABASE IF NOT EXISTS lockfast_guard CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
//
CREATE TABLE IF NOT EXISTS lockfast_guard.mark (
  name   VARBINARY(512) NOT NULL PRIMARY KEY, -- UTF-8. A collation would merge names that differ in case
  token  BIGINT         NOT NULL,
  id     VARBINARY(32)  NOT NULL,             -- empty if a reader has raised the mark to its floor
  passed BIGINT         NOT NULL              -- how many transactions were admitted
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC
//
DROP TRIGGER IF EXISTS lockfast_guard.keep
//
CREATE TRIGGER lockfast_guard.keep BEFORE DELETE ON lockfast_guard.mark FOR EACH ROW
  SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT =
    'lockfast: marks cannot be deleted, because a lock without its mark admits stale holders again'
//
DROP PROCEDURE IF EXISTS lockfast_guard.admit_v1
//
-- The rule of every guard: admit a holder and raise the mark, or refuse a stale holder.
--
-- p_floor  the value to which the mark is raised: the token, or for a reader the floor of its grant
-- p_reads  whether the transaction will read under the guard, so that its snapshot must not be older
--
-- The parameters are wider than the columns and their lengths are checked. Otherwise a session without strict
-- mode would cut them, and two names or ids could become one.
CREATE PROCEDURE lockfast_guard.admit_v1(
  p_name VARBINARY(2048), p_token BIGINT, p_id VARBINARY(256), p_floor BIGINT, p_shared BOOLEAN, p_reads BOOLEAN
) SQL SECURITY DEFINER MODIFIES SQL DATA
BEGIN
  DECLARE v_token, v_passed, v_seen BIGINT;
  DECLARE v_id VARBINARY(32);
  DECLARE v_said VARCHAR(128) CHARACTER SET utf8mb4;
  -- No engine gives out a token outside this range. As a mark, it would refuse every holder for ever.
  IF NOT COALESCE(p_token BETWEEN 1 AND 9007199254740991 AND p_floor BETWEEN 0 AND p_token
      AND p_shared IN (0, 1) AND LENGTH(p_name) BETWEEN 1 AND 512
      AND LENGTH(p_id) = 32 AND UNHEX(p_id) IS NOT NULL, FALSE) THEN
    SIGNAL SQLSTATE '22023' SET MESSAGE_TEXT = 'lockfast: not a lease: a token is 1 to 2^53 - 1, an id 32 digits';
  END IF;
  -- Make the mark, or lock it. A locking read of a row that is not there would lock the gap, and two holders of a
  -- new name would wait for each other.
  INSERT INTO lockfast_guard.mark (name, token, id, passed) VALUES (p_name, 0, '', 0)
    ON DUPLICATE KEY UPDATE passed = passed;
  SELECT m.token, m.id, m.passed INTO v_token, v_id, v_passed
    FROM lockfast_guard.mark m WHERE m.name = p_name FOR UPDATE;
  IF p_token < v_token OR (p_token = v_token AND NOT p_shared AND p_id <> v_id) THEN
    SET v_said = CONCAT('lockfast LF001: the token is stale, the mark is at ', v_token, ', refused ',
      CONVERT(p_id USING utf8mb4));
    SIGNAL SQLSTATE 'LF001' SET MESSAGE_TEXT = v_said;
  END IF;
  -- InnoDB lets a transaction write on a snapshot that is too old. The mark is locked now, so a plain read finds
  -- the same number, unless the snapshot was taken before the last holder has committed.
  IF p_reads THEN
    SELECT MAX(m.passed) INTO v_seen FROM lockfast_guard.mark m WHERE m.name = p_name;
    IF NOT v_seen <=> v_passed THEN
      SIGNAL SQLSTATE 'LF005' SET MESSAGE_TEXT =
        'lockfast LF005: this transaction has read before a write under the lock was committed: begin another one';
    END IF;
  END IF;
  -- `passed` always changes, also when the mark does not: Galera certifies what was written, and no row lock.
  -- MySQL assigns from left to right, so the id comes before the token that it is compared with.
  UPDATE lockfast_guard.mark m
  SET m.id = CASE WHEN NOT p_shared THEN p_id WHEN p_floor > m.token THEN '' ELSE m.id END,
      m.token = GREATEST(m.token, p_floor),
      m.passed = m.passed + 1
  WHERE m.name = p_name;
END
//
DROP PROCEDURE IF EXISTS lockfast_guard.each_v1
//
-- Admit each of these leases.
CREATE PROCEDURE lockfast_guard.each_v1(p_leases MEDIUMTEXT CHARACTER SET ascii, p_reads BOOLEAN)
SQL SECURITY DEFINER MODIFIES SQL DATA
BEGIN
  DECLARE v_rest MEDIUMTEXT CHARACTER SET ascii DEFAULT p_leases;
  DECLARE v_one TEXT CHARACTER SET ascii;
  WHILE LENGTH(v_rest) > 0 DO
    SET v_one = SUBSTRING_INDEX(v_rest, ';', 1), v_rest = SUBSTRING(v_rest, LENGTH(v_one) + 2);
    CALL lockfast_guard.admit_v1(
      UNHEX(SUBSTRING_INDEX(v_one, ' ', 1)),
      SUBSTRING_INDEX(SUBSTRING_INDEX(v_one, ' ', 2), ' ', -1),
      SUBSTRING_INDEX(SUBSTRING_INDEX(v_one, ' ', 3), ' ', -1),
      SUBSTRING_INDEX(SUBSTRING_INDEX(v_one, ' ', 4), ' ', -1),
      SUBSTRING_INDEX(v_one, ' ', -1),
      p_reads);
  END WHILE;
END
//
DROP PROCEDURE IF EXISTS lockfast_guard.forget_v1
//
-- Clear what a block has set in its session. It changes nothing if no block is open.
CREATE PROCEDURE lockfast_guard.forget_v1() SQL SECURITY DEFINER NO SQL
BEGIN
  IF @lockfast_waits IS NOT NULL THEN
    SET SESSION wait_timeout = CAST(SUBSTRING_INDEX(@lockfast_waits, ' ', 1) AS UNSIGNED),
      SESSION innodb_lock_wait_timeout = CAST(SUBSTRING_INDEX(@lockfast_waits, ' ', -1) AS UNSIGNED);
  END IF;
  SET @lockfast_waits = NULL, @lockfast_shown = NULL;
END
//
DROP PROCEDURE IF EXISTS lockfast_guard.bound_v1
//
-- Limit waits for locks, and pauses of the client, to the seconds for which the lease is valid. Otherwise a holder
-- that has lost its lease could block the next one. The server closes a connection that is idle for longer.
CREATE PROCEDURE lockfast_guard.bound_v1(p_seconds INT) SQL SECURITY DEFINER NO SQL
BEGIN
  SET @lockfast_waits = COALESCE(@lockfast_waits,
    CONCAT(@@SESSION.wait_timeout, ' ', @@SESSION.innodb_lock_wait_timeout));
  SET SESSION wait_timeout = LEAST(@@SESSION.wait_timeout, GREATEST(p_seconds, 1)),
    SESSION innodb_lock_wait_timeout = LEAST(@@SESSION.innodb_lock_wait_timeout, GREATEST(p_seconds, 1));
END
//
DROP PROCEDURE IF EXISTS lockfast_guard.still_v1
//
-- Refuse with LF004 unless a transaction is open. Error packets do not say so, and a DDL statement that fails
-- has committed all the same. MySQL has no @@in_transaction, but refuses SET TRANSACTION in a transaction (1568).
CREATE PROCEDURE lockfast_guard.still_v1() SQL SECURITY DEFINER NO SQL
BEGIN
  DECLARE v_open BOOLEAN DEFAULT FALSE;
  DECLARE CONTINUE HANDLER FOR 1568 SET v_open = TRUE;
  SET TRANSACTION READ WRITE;
  IF NOT v_open THEN
    SIGNAL SQLSTATE 'LF004' SET MESSAGE_TEXT = 'lockfast LF004: the guarded transaction has ended';
  END IF;
END
//
DROP PROCEDURE IF EXISTS lockfast_guard.idle_v1
//
-- Refuse with LF006 if a transaction is open. START TRANSACTION would commit it.
CREATE PROCEDURE lockfast_guard.idle_v1() SQL SECURITY DEFINER NO SQL
BEGIN
  DECLARE EXIT HANDLER FOR 1568 SIGNAL SQLSTATE 'LF006' SET MESSAGE_TEXT =
    'lockfast LF006: the connection is in a transaction already: commit or roll back first';
  SET TRANSACTION READ WRITE;
END
//
DROP PROCEDURE IF EXISTS lockfast_guard.enter_v1
//
-- Apply the rule at the start of a transaction, and show the leases to the triggers.
--
-- The savepoint ends with its transaction. So leave_v1 notices a transaction that is another one, also after
-- COMMIT AND CHAIN, or COMMIT and BEGIN.
--
-- p_within  whether this is a block within a block
CREATE PROCEDURE lockfast_guard.enter_v1(p_leases MEDIUMTEXT CHARACTER SET ascii, p_seconds INT, p_within BOOLEAN)
SQL SECURITY DEFINER MODIFIES SQL DATA
BEGIN
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN
    IF NOT p_within THEN
      CALL lockfast_guard.forget_v1();
    END IF;
    RESIGNAL;
  END;
  IF NOT p_within THEN
    CALL lockfast_guard.forget_v1(); -- of a block whose end has failed
  END IF;
  CALL lockfast_guard.bound_v1(p_seconds);
  CALL lockfast_guard.each_v1(p_leases, TRUE);
  BEGIN
    DECLARE v_open BOOLEAN DEFAULT FALSE;
    DECLARE CONTINUE HANDLER FOR 1568 SET v_open = TRUE;
    SET TRANSACTION READ WRITE;
    IF NOT v_open THEN
      SIGNAL SQLSTATE 'LF003' SET MESSAGE_TEXT = 'lockfast LF003: the connection is in autocommit';
    END IF;
  END;
  IF NOT p_within THEN
    SAVEPOINT lockfast_guard;
  END IF;
  SET @lockfast_shown = CONCAT(COALESCE(@lockfast_shown, ';'), p_leases);
END
//
DROP PROCEDURE IF EXISTS lockfast_guard.leave_v1
//
-- Refuse with LF004 unless the transaction is the one that was entered. This comes before its COMMIT.
CREATE PROCEDURE lockfast_guard.leave_v1() SQL SECURITY DEFINER MODIFIES SQL DATA
BEGIN
  DECLARE EXIT HANDLER FOR 1305
    SIGNAL SQLSTATE 'LF004' SET MESSAGE_TEXT = 'lockfast LF004: the guarded transaction has ended';
  RELEASE SAVEPOINT lockfast_guard;
  CALL lockfast_guard.forget_v1();
END
//
DROP PROCEDURE IF EXISTS lockfast_guard.begin_v1
//
-- Begin a guarded transaction, in one message.
CREATE PROCEDURE lockfast_guard.begin_v1(p_leases MEDIUMTEXT CHARACTER SET ascii, p_seconds INT)
SQL SECURITY DEFINER MODIFIES SQL DATA
BEGIN
  CALL lockfast_guard.idle_v1();
  BEGIN
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN
      ROLLBACK;
      RESIGNAL;
    END;
    START TRANSACTION;
    CALL lockfast_guard.enter_v1(p_leases, p_seconds, FALSE);
  END;
END
//
DROP PROCEDURE IF EXISTS lockfast_guard.commit_v1
//
CREATE PROCEDURE lockfast_guard.commit_v1() SQL SECURITY DEFINER MODIFIES SQL DATA
BEGIN
  CALL lockfast_guard.leave_v1();
  COMMIT AND NO CHAIN NO RELEASE;
END
//
DROP PROCEDURE IF EXISTS lockfast_guard.rollback_v1
//
CREATE PROCEDURE lockfast_guard.rollback_v1() SQL SECURITY DEFINER MODIFIES SQL DATA
BEGIN
  ROLLBACK AND NO CHAIN NO RELEASE;
  CALL lockfast_guard.forget_v1();
END
//
DROP PROCEDURE IF EXISTS lockfast_guard.raise_v1
//
-- Raise the marks in the present transaction.
CREATE PROCEDURE lockfast_guard.raise_v1(p_leases MEDIUMTEXT CHARACTER SET ascii, p_seconds INT)
SQL SECURITY DEFINER MODIFIES SQL DATA
BEGIN
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN
    CALL lockfast_guard.forget_v1();
    RESIGNAL;
  END;
  CALL lockfast_guard.bound_v1(p_seconds);
  CALL lockfast_guard.each_v1(p_leases, FALSE);
  CALL lockfast_guard.forget_v1();
END
//
DROP PROCEDURE IF EXISTS lockfast_guard.seal_v1
//
-- Raise the marks in a transaction of their own, in one message.
CREATE PROCEDURE lockfast_guard.seal_v1(p_leases MEDIUMTEXT CHARACTER SET ascii, p_seconds INT)
SQL SECURITY DEFINER MODIFIES SQL DATA
BEGIN
  CALL lockfast_guard.idle_v1();
  BEGIN
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN
      ROLLBACK;
      RESIGNAL;
    END;
    START TRANSACTION;
    CALL lockfast_guard.raise_v1(p_leases, p_seconds);
    COMMIT AND NO CHAIN NO RELEASE;
  END;
END
//
DROP PROCEDURE IF EXISTS lockfast_guard.demand_v1
//
-- Refuse unless the session shows a current token of the lock p_name. The triggers call it for each row.
--
-- It locks the mark, so that no later holder can seal before this transaction has ended. A plain read would find
-- the mark of the transaction's snapshot.
CREATE PROCEDURE lockfast_guard.demand_v1(p_name VARBINARY(2048), p_table VARCHAR(200) CHARACTER SET utf8mb4)
SQL SECURITY DEFINER MODIFIES SQL DATA
BEGIN
  DECLARE v_shown MEDIUMBLOB DEFAULT COALESCE(CAST(@lockfast_shown AS BINARY), '');
  DECLARE v_at INT DEFAULT LOCATE(CAST(CONCAT(';', HEX(p_name), ' ') AS BINARY), v_shown);
  DECLARE v_one BLOB;
  DECLARE v_token BIGINT;
  DECLARE v_id VARBINARY(32);
  DECLARE v_said VARCHAR(128) CHARACTER SET utf8mb4;
  IF v_at > 0 THEN
    SET v_one = SUBSTRING_INDEX(SUBSTRING(v_shown, v_at + 1), ';', 1);
    SELECT MAX(m.token), MAX(m.id) INTO v_token, v_id
      FROM lockfast_guard.mark m WHERE m.name = p_name FOR UPDATE;
    -- The mark that enter_v1 has left needs no write for each row.
    IF NOT CONCAT(v_token, ' ', v_id) <=> SUBSTRING_INDEX(SUBSTRING_INDEX(v_one, ' ', 3), ' ', -2) THEN
      CALL lockfast_guard.admit_v1(
        p_name,
        SUBSTRING_INDEX(SUBSTRING_INDEX(v_one, ' ', 2), ' ', -1),
        SUBSTRING_INDEX(SUBSTRING_INDEX(v_one, ' ', 3), ' ', -1),
        SUBSTRING_INDEX(SUBSTRING_INDEX(v_one, ' ', 4), ' ', -1),
        SUBSTRING_INDEX(v_one, ' ', -1),
        FALSE);
    END IF;
  ELSEIF CAST(CONVERT(@lockfast_name USING utf8mb4) AS BINARY) = p_name
      AND CONVERT(@lockfast_token USING utf8mb4) REGEXP '^[0-9]{1,16}$' AND @lockfast_id IS NOT NULL THEN
    CALL lockfast_guard.admit_v1(p_name, @lockfast_token, @lockfast_id, @lockfast_token, FALSE, FALSE);
  ELSE
    SET v_said = LEFT(CONCAT('lockfast LF002: a write to ', p_table, ' needs the token of the lock ',
      CONVERT(p_name USING utf8mb4)), 128);
    SIGNAL SQLSTATE 'LF002' SET MESSAGE_TEXT = v_said;
  END IF;
END
