-- What lockfast needs in a PostgreSQL database (13 or later). Safe to run again.
--
-- bucket     1,024 rows. A row is the mutex of all names that fall on it, and mints their tickets:
--            the order of tickets is the order of commits. Nothing is kept per name.
-- claim      the live claims. Times are in microseconds, by this server's clock.
-- tombstone  ids that must not come to life again, until their last copy is too late anyway.
--
-- Each operation is one VOLATILE function in a transaction of its own, READ COMMITTED: only there
-- does every statement see what was committed before the bucket's row was locked. The clock is read
-- under that lock. Expiry is deletion: as a filter it would grant twice when the clock goes back.
--
-- Who is let in stands in front of who waits, so the queue of a name is its claims in the order of
-- (waits, ticket). Its last claim carries the totals of the whole queue: nothing is ever counted
-- that could be long. Every query below finds its rows by exactly one index, in its order, whatever
-- the planner believes; and never by a bitmap, which would walk over the dead rows of the past.

SELECT pg_advisory_xact_lock(7812736409123); -- two installations at once would disturb each other

CREATE SCHEMA IF NOT EXISTS lockfast;

-- The timeline of this server, which is another after a promotion; '' if this user may not know. Two
-- statements: privileges are checked even for the branch of an expression that is not taken.
CREATE OR REPLACE FUNCTION lockfast.line_v1() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  IF has_function_privilege('pg_walfile_name(pg_lsn)'::regprocedure, 'execute')
    AND has_function_privilege('pg_current_wal_lsn()'::regprocedure, 'execute') THEN
    RETURN left(pg_walfile_name(pg_current_wal_lsn()), 8);
  END IF;
  RETURN '';
END
$$;

-- How many promotions lie between two timelines, one at least where that is not known.
CREATE OR REPLACE FUNCTION lockfast.promotions_v1(p_from text, p_to text) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN p_to IN (p_from, '') THEN 0 WHEN p_from = '' THEN 1
    ELSE greatest(1, ('x' || p_to)::bit(32)::bigint - ('x' || p_from)::bit(32)::bigint) END
$$;

-- Room in every page, so that an update stays in its page and touches no index.
CREATE TABLE IF NOT EXISTS lockfast.bucket (
  b    integer PRIMARY KEY,
  last bigint NOT NULL DEFAULT 0, -- the highest ticket given
  seen bigint NOT NULL DEFAULT 0, -- the clock, when an expiry was last set
  line text   NOT NULL DEFAULT lockfast.line_v1() -- the timeline on which it was last used
) WITH (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

INSERT INTO lockfast.bucket (b) SELECT generate_series(0, 1023) ON CONFLICT DO NOTHING;

CREATE TABLE IF NOT EXISTS lockfast.claim (
  id       text PRIMARY KEY,
  b        integer NOT NULL,
  name     bytea   NOT NULL, -- UTF-8; a text cannot hold NUL
  ticket   bigint  NOT NULL,
  waits    boolean NOT NULL, -- or it is let in
  capacity integer NOT NULL,
  weight   integer NOT NULL,
  ttl      bigint  NOT NULL,
  wait_ttl bigint  NOT NULL,
  expires  bigint  NOT NULL,
  place    bigint  NOT NULL, -- one more than that of the claim in front of it, when it came
  claims   integer NOT NULL, -- the totals, true in the last claim of a queue: how many there are,
  waiting  integer NOT NULL, -- how many of them wait,
  held     bigint  NOT NULL, -- the weight of those that are let in
  payload  bytea   NOT NULL
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

CREATE UNIQUE INDEX IF NOT EXISTS claim_queue ON lockfast.claim (name, waits, ticket);
CREATE INDEX IF NOT EXISTS claim_expiry ON lockfast.claim (b, expires);

CREATE TABLE IF NOT EXISTS lockfast.tombstone (
  id    text PRIMARY KEY,
  b     integer NOT NULL,
  until bigint  NOT NULL
);

CREATE INDEX IF NOT EXISTS tombstone_expiry ON lockfast.tombstone (b, until);

CREATE OR REPLACE FUNCTION lockfast.micros_v1() RETURNS bigint LANGUAGE sql VOLATILE AS $$
  SELECT (date_part('epoch', clock_timestamp()) * 1000000)::bigint
$$;

CREATE OR REPLACE FUNCTION lockfast.bucket_v1(p_name bytea) RETURNS integer LANGUAGE sql IMMUTABLE AS $$
  SELECT get_byte(sha256(p_name), 0) % 4 * 256 + get_byte(sha256(p_name), 1)
$$;

-- Refuse where the rule would not hold, and make sure that a grant is on disk before it is told.
CREATE OR REPLACE FUNCTION lockfast.enter_v1() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION 'lockfast works in READ COMMITTED only, not in %',
      upper(current_setting('transaction_isolation')) USING ERRCODE = 'invalid_transaction_state';
  END IF;
  IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
END
$$;

-- Take leave of claims that were deleted from a queue: so many, so many of them waiting, and the
-- weight of the others. If the last of the queue was among them, it is `p_last`, and its totals are
-- the queue's. Then let in whoever fits now, in the order of tickets, and tell it.
CREATE OR REPLACE FUNCTION lockfast.leave_v1(
  p_name bytea, p_claims bigint, p_waiting bigint, p_held bigint, p_last lockfast.claim
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_tail  lockfast.claim;
  v_claim record;
  v_floor bigint;
BEGIN
  SELECT * INTO v_tail FROM lockfast.claim c
  WHERE c.name = p_name ORDER BY c.waits DESC, c.ticket DESC LIMIT 1;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  IF p_last.ticket > v_tail.ticket THEN
    v_tail.claims := p_last.claims;
    v_tail.waiting := p_last.waiting;
    v_tail.held := p_last.held;
  END IF;
  v_tail.claims := v_tail.claims - p_claims;
  v_tail.waiting := v_tail.waiting - p_waiting;
  v_tail.held := v_tail.held - p_held;
  IF v_tail.waits THEN
    FOR v_claim IN
      SELECT c.id, c.weight FROM lockfast.claim c
      WHERE c.name = p_name AND c.waits ORDER BY c.waits, c.ticket
    LOOP
      EXIT WHEN v_tail.held + v_claim.weight > v_tail.capacity;
      UPDATE lockfast.claim SET waits = false WHERE id = v_claim.id;
      v_tail.waiting := v_tail.waiting - 1;
      v_tail.held := v_tail.held + v_claim.weight;
      IF v_floor IS NULL THEN
        SELECT c.ticket INTO v_floor FROM lockfast.claim c
        WHERE c.name = p_name ORDER BY c.waits, c.ticket LIMIT 1;
      END IF;
      PERFORM pg_notify('lockfast_' || left(v_claim.id, 22), v_claim.id || ' ' || v_floor);
    END LOOP;
  END IF;
  UPDATE lockfast.claim SET claims = v_tail.claims, waiting = v_tail.waiting, held = v_tail.held
  WHERE id = v_tail.id;
END
$$;

-- Count a queue anew: its first claim waits, so somebody has deleted rows by hand.
CREATE OR REPLACE FUNCTION lockfast.recount_v1(p_name bytea) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE lockfast.claim c SET claims = n.claims, waiting = n.waiting, held = n.held
  FROM (
    SELECT max(q.ticket) AS last, count(*) AS claims, count(*) FILTER (WHERE q.waits) AS waiting,
           coalesce(sum(q.weight) FILTER (WHERE NOT q.waits), 0) AS held
    FROM lockfast.claim q WHERE q.name = p_name
  ) n
  WHERE c.name = p_name AND c.ticket = n.last;
  PERFORM lockfast.leave_v1(p_name, 0, 0, 0, NULL);
END
$$;

-- Read the clock in a locked bucket that saw `p_seen` before. Where the clock went back, no expiry
-- stays further away than one life.
CREATE OR REPLACE FUNCTION lockfast.clock_v1(p_b integer, p_seen bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  v_now bigint := lockfast.micros_v1();
BEGIN
  UPDATE lockfast.bucket SET seen = v_now WHERE b = p_b;
  IF p_seen > v_now THEN
    UPDATE lockfast.claim c SET expires = v_now + CASE WHEN c.waits THEN c.wait_ttl ELSE c.ttl END
    WHERE c.b = p_b AND c.expires > v_now + CASE WHEN c.waits THEN c.wait_ttl ELSE c.ttl END;
  END IF;
  RETURN v_now;
END
$$;

-- Lock a bucket, and give the time.
CREATE OR REPLACE FUNCTION lockfast.lock_v1(p_b integer) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  v_seen bigint;
BEGIN
  UPDATE lockfast.bucket SET seen = greatest(seen, lockfast.micros_v1()) WHERE b = p_b
  RETURNING seen INTO v_seen;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'lockfast.bucket has lost its row %', p_b USING ERRCODE = 'undefined_table';
  END IF;
  -- That clock may have been read before a wait for the lock.
  IF lockfast.micros_v1() - v_seen BETWEEN 0 AND 1000 THEN
    RETURN v_seen;
  END IF;
  RETURN lockfast.clock_v1(p_b, v_seen);
END
$$;

-- Delete what has expired in a locked bucket, and let in whom that lets in.
CREATE OR REPLACE FUNCTION lockfast.sweep_v1(p_b integer, p_now bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_gone record;
BEGIN
  IF (SELECT c.expires FROM lockfast.claim c WHERE c.b = p_b ORDER BY c.expires LIMIT 1) <= p_now THEN
    FOR v_gone IN
      WITH gone AS (
        DELETE FROM lockfast.claim c WHERE c.b = p_b AND c.expires <= p_now RETURNING c AS claim
      )
      SELECT (g.claim).name AS name, count(*) AS claims,
             count(*) FILTER (WHERE (g.claim).waits) AS waiting,
             coalesce(sum((g.claim).weight) FILTER (WHERE NOT (g.claim).waits), 0)::bigint AS held,
             (array_agg(g.claim ORDER BY (g.claim).ticket DESC))[1] AS last
      FROM gone g GROUP BY 1
    LOOP
      PERFORM lockfast.leave_v1(v_gone.name, v_gone.claims, v_gone.waiting, v_gone.held, v_gone.last);
    END LOOP;
  END IF;
  IF (SELECT t.until FROM lockfast.tombstone t WHERE t.b = p_b ORDER BY t.until LIMIT 1) <= p_now THEN
    DELETE FROM lockfast.tombstone t WHERE t.b = p_b AND t.until <= p_now;
  END IF;
END
$$;

-- Where a claim stands, as words: ticket, granted, time left, ahead, behind, floor; and for one that
-- waits, until when to wait for an expiry (of the first in line; '-' for others), and the head's id,
-- ticket and payload in hexadecimal digits. NULL if it is gone.
--
-- `ahead` is exact for the first hundred and for the first in line, and wherever nobody has left the
-- queue from its middle; otherwise those who have are counted as if they stood ahead.
CREATE OR REPLACE FUNCTION lockfast.standing_v1(p_name bytea, p_id text, p_now bigint) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
  v_mine  lockfast.claim;
  v_head  lockfast.claim;
  v_tail  lockfast.claim;
  v_ahead bigint;
  v_next  text := '-';
BEGIN
  SELECT * INTO v_mine FROM lockfast.claim c WHERE c.id = p_id;
  IF NOT FOUND OR v_mine.name <> p_name THEN
    RETURN NULL;
  END IF;
  SELECT * INTO v_head FROM lockfast.claim c
  WHERE c.name = p_name ORDER BY c.waits, c.ticket LIMIT 1;
  IF v_head.waits THEN
    PERFORM lockfast.recount_v1(p_name);
    RETURN lockfast.standing_v1(p_name, p_id, p_now);
  END IF;
  SELECT * INTO v_tail FROM lockfast.claim c
  WHERE c.name = p_name ORDER BY c.waits DESC, c.ticket DESC LIMIT 1;
  v_ahead := v_mine.place - v_head.place;
  IF v_ahead > 0 AND v_tail.place - v_head.place + 1 <> v_tail.claims THEN
    SELECT CASE WHEN count(*) <= 100 THEN count(*) ELSE least(v_ahead, v_tail.claims - 1) END
    INTO v_ahead
    FROM (
      SELECT FROM lockfast.claim c
      WHERE c.name = p_name AND (c.waits, c.ticket) < (v_mine.waits, v_mine.ticket)
      ORDER BY c.waits, c.ticket LIMIT 101
    ) few;
  END IF;
  IF NOT v_mine.waits THEN
    RETURN concat_ws(' ', v_mine.ticket, true, v_mine.expires - p_now, v_ahead, v_tail.waiting, v_head.ticket);
  END IF;
  IF v_mine.ticket = (
    SELECT c.ticket FROM lockfast.claim c
    WHERE c.name = p_name AND c.waits ORDER BY c.waits, c.ticket LIMIT 1
  ) THEN
    v_ahead := v_tail.claims - v_tail.waiting;
    v_next := (
      SELECT c.expires FROM lockfast.claim c WHERE c.b = v_mine.b ORDER BY c.expires LIMIT 1
    ) - p_now;
  END IF;
  RETURN concat_ws(' ', v_mine.ticket, false, v_mine.expires - p_now, v_ahead,
    v_tail.claims - v_ahead - 1, v_head.ticket, v_next, v_head.id, v_head.ticket,
    encode(v_head.payload, 'hex'));
END
$$;

-- Append a claim, or find it, and report its standing.
--
-- p_late  its latest time, by this server's clock      p_base  added to the clock in new tickets
--
-- One line of words: the time, and the standing; with ticket 0 it was not to queue, and did not fit.
-- The time alone: the id is dead. The time and one number: the capacity that rules, another one.
CREATE OR REPLACE FUNCTION lockfast.claim_v1(
  p_name bytea, p_id text, p_capacity integer, p_weight integer, p_ttl bigint, p_wait_ttl bigint,
  p_queue boolean, p_late bigint, p_base bigint, p_payload bytea
) RETURNS text LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
  v_b      integer := lockfast.bucket_v1(p_name);
  v_line   text := lockfast.line_v1();
  v_now    bigint;
  v_ticket bigint;
  v_found  text;
  v_tail   lockfast.claim;
  v_head   lockfast.claim;
  v_fits   boolean := true;
BEGIN
  PERFORM lockfast.enter_v1();
  -- Lock and mint in one. On a new timeline a replica was promoted that may have missed tickets, and
  -- its clock may be behind: an hour is more than either. An hour for each promotion: what it missed
  -- may be that the one before it was raised, from the same number.
  UPDATE lockfast.bucket k
  SET seen = greatest(k.seen, lockfast.micros_v1()),
      last = greatest(k.last + 1, lockfast.micros_v1() + p_base)
             + 3600000000 * lockfast.promotions_v1(k.line, v_line),
      line = CASE WHEN v_line = '' THEN k.line ELSE v_line END
  WHERE k.b = v_b RETURNING k.seen, k.last INTO v_now, v_ticket;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'lockfast.bucket has lost its row %', v_b USING ERRCODE = 'undefined_table';
  END IF;
  -- That clock may have been read before a wait for the lock.
  IF lockfast.micros_v1() - v_now NOT BETWEEN 0 AND 1000 THEN
    v_now := lockfast.clock_v1(v_b, v_now);
  END IF;
  IF v_now > p_late
    OR EXISTS (SELECT FROM lockfast.tombstone t WHERE t.id = p_id AND t.until > v_now) THEN
    RETURN v_now;
  END IF;
  PERFORM lockfast.sweep_v1(v_b, v_now);
  SELECT * INTO v_tail FROM lockfast.claim c
  WHERE c.name = p_name ORDER BY c.waits DESC, c.ticket DESC LIMIT 1;
  IF FOUND THEN
    v_found := lockfast.standing_v1(p_name, p_id, v_now);
    IF v_found IS NOT NULL THEN
      RETURN v_now || ' ' || v_found;
    END IF;
    IF v_tail.capacity <> p_capacity THEN
      RETURN v_now || ' ' || v_tail.capacity;
    END IF;
    v_fits := NOT v_tail.waits AND v_tail.held + p_weight <= p_capacity;
    IF NOT v_fits AND NOT p_queue THEN
      SELECT * INTO v_head FROM lockfast.claim c
      WHERE c.name = p_name ORDER BY c.waits, c.ticket LIMIT 1;
      RETURN concat_ws(' ', v_now, 0, false, 0, v_tail.claims, 0, 0, '-', v_head.id, v_head.ticket,
        encode(v_head.payload, 'hex'));
    END IF;
  END IF;
  IF v_ticket >= 9007199254740992 THEN
    RAISE EXCEPTION 'ticket % would reach 2^53: the clock or token_base is wrong', v_ticket;
  END IF;
  INSERT INTO lockfast.claim
    (id, b, name, ticket, waits, capacity, weight, ttl, wait_ttl, expires,
     place, claims, waiting, held, payload)
  VALUES
    (p_id, v_b, p_name, v_ticket, NOT v_fits, p_capacity, p_weight, p_ttl, p_wait_ttl,
     v_now + CASE WHEN v_fits THEN p_ttl ELSE p_wait_ttl END,
     coalesce(v_tail.place, 0) + 1, coalesce(v_tail.claims, 0) + 1,
     coalesce(v_tail.waiting, 0) + CASE WHEN v_fits THEN 0 ELSE 1 END,
     coalesce(v_tail.held, 0) + CASE WHEN v_fits THEN p_weight ELSE 0 END, p_payload);
  IF v_tail.id IS NULL THEN
    RETURN concat_ws(' ', v_now, v_ticket, true, p_ttl, 0, 0, v_ticket);
  END IF;
  RETURN v_now || ' ' || lockfast.standing_v1(p_name, p_id, v_now);
END
$$;

-- Extend claims to their full life from now, never shortening, and report their standings.
--
-- One line per claim: its place in the arrays, the time, and the standing unless it is gone. Buckets
-- are locked in their order, so that two batches cannot block each other.
CREATE OR REPLACE FUNCTION lockfast.renew_v1(p_names bytea[], p_ids text[]) RETURNS text
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
  v_ask   record;
  v_b     integer;
  v_now   bigint;
  v_lines text[];
BEGIN
  PERFORM lockfast.enter_v1();
  FOR v_ask IN
    SELECT lockfast.bucket_v1(a.name) AS b, a.name, a.id, a.place
    FROM unnest(p_names, p_ids) WITH ORDINALITY a(name, id, place) ORDER BY 1, a.place
  LOOP
    IF v_b IS DISTINCT FROM v_ask.b THEN
      v_b := v_ask.b;
      v_now := lockfast.lock_v1(v_b);
      PERFORM lockfast.sweep_v1(v_b, v_now);
    END IF;
    -- Not "=", which the planner might take for a way to find it: the id alone is that.
    UPDATE lockfast.claim c
    SET expires = greatest(c.expires, v_now + CASE WHEN c.waits THEN c.wait_ttl ELSE c.ttl END)
    WHERE c.id = v_ask.id AND c.name IS NOT DISTINCT FROM v_ask.name;
    v_lines := v_lines
      || concat_ws(' ', v_ask.place, v_now, lockfast.standing_v1(v_ask.name, v_ask.id, v_now));
  END LOOP;
  RETURN array_to_string(v_lines, chr(10));
END
$$;

-- Remove claims for good, and tell whom that lets in.
--
-- p_untils  per claim NULL or, when a copy may still be on its way, the time until which its
--           tombstone must stand, by this server's clock; at least a second from now
--
-- Whether each was there, in the order of the arrays.
CREATE OR REPLACE FUNCTION lockfast.resign_v1(p_names bytea[], p_ids text[], p_untils bigint[])
RETURNS boolean[] LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
  v_ask     record;
  v_b       integer;
  v_now     bigint;
  v_gone    lockfast.claim;
  v_removed boolean[];
BEGIN
  PERFORM lockfast.enter_v1();
  FOR v_ask IN
    SELECT lockfast.bucket_v1(a.name) AS b, a.name, a.id, a.until, a.place
    FROM unnest(p_names, p_ids, p_untils) WITH ORDINALITY a(name, id, until, place)
    ORDER BY 1, a.place
  LOOP
    IF v_b IS DISTINCT FROM v_ask.b THEN
      v_b := v_ask.b;
      v_now := lockfast.lock_v1(v_b);
      PERFORM lockfast.sweep_v1(v_b, v_now);
    END IF;
    IF v_ask.until IS NOT NULL THEN
      INSERT INTO lockfast.tombstone AS t (id, b, until)
      VALUES (v_ask.id, v_b, greatest(v_ask.until, v_now + 1000000))
      ON CONFLICT (id) DO UPDATE SET until = greatest(t.until, excluded.until);
    END IF;
    DELETE FROM lockfast.claim c WHERE c.id = v_ask.id AND c.name IS NOT DISTINCT FROM v_ask.name
    RETURNING * INTO v_gone;
    v_removed[v_ask.place] := FOUND;
    IF FOUND AND v_gone.waits THEN
      PERFORM lockfast.leave_v1(v_ask.name, 1, 1, 0, v_gone);
    ELSIF FOUND THEN
      PERFORM lockfast.leave_v1(v_ask.name, 1, 0, v_gone.weight, v_gone);
    END IF;
  END LOOP;
  RETURN v_removed;
END
$$;
