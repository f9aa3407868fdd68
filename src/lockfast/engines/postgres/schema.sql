-- What lockfast needs in a PostgreSQL database (13 or later). Safe to run again.
--
-- bucket     1,024 rows. A row is the mutex of all names that fall on it, and mints their tickets:
--            the order of tickets is the order of commits. Nothing is kept per name.
-- claim      the live claims. Times are in microseconds, by this server's clock.
-- tombstone  ids that must not come to life again, until their last copy is too late anyway.
--
-- Each operation is one VOLATILE function in a transaction of its own, READ COMMITTED: only there
-- does every statement see what was committed before the bucket's row was locked. The clock is read
-- after that lock. Expiry is deletion: as a filter it would grant twice when the clock goes back.

SELECT pg_advisory_xact_lock(7812736409123); -- two installations at once would disturb each other

CREATE SCHEMA IF NOT EXISTS lockfast;

-- Room in every page, so that an update stays in its page and touches no index.
CREATE TABLE IF NOT EXISTS lockfast.bucket (
  b    integer PRIMARY KEY,
  last bigint NOT NULL DEFAULT 0, -- the highest ticket given
  seen bigint NOT NULL DEFAULT 0  -- the clock, when an expiry was last set
) WITH (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

INSERT INTO lockfast.bucket (b) SELECT generate_series(0, 1023) ON CONFLICT DO NOTHING;

CREATE TABLE IF NOT EXISTS lockfast.claim (
  id       text PRIMARY KEY,
  b        integer NOT NULL,
  name     bytea   NOT NULL, -- UTF-8; a text cannot hold NUL
  ticket   bigint  NOT NULL,
  granted  boolean NOT NULL,
  capacity integer NOT NULL,
  weight   integer NOT NULL,
  ttl      bigint  NOT NULL,
  wait_ttl bigint  NOT NULL,
  expires  bigint  NOT NULL,
  payload  bytea   NOT NULL
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

CREATE UNIQUE INDEX IF NOT EXISTS claim_queue ON lockfast.claim (name, ticket);
CREATE INDEX IF NOT EXISTS claim_expiry ON lockfast.claim (b, expires);

CREATE TABLE IF NOT EXISTS lockfast.tombstone (
  id    text PRIMARY KEY,
  b     integer NOT NULL,
  until bigint  NOT NULL
);

CREATE INDEX IF NOT EXISTS tombstone_expiry ON lockfast.tombstone (b, until);

CREATE OR REPLACE FUNCTION lockfast.micros_v1() RETURNS bigint LANGUAGE sql VOLATILE AS $$
  SELECT floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint
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

-- Let in whoever fits now, in the order of tickets, and tell it.
CREATE OR REPLACE FUNCTION lockfast.promote_v1(p_name bytea) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_claim  record;
  v_weight bigint;
  v_floor  bigint;
BEGIN
  FOR v_claim IN
    SELECT c.id, c.ticket, c.weight, c.capacity FROM lockfast.claim c
    WHERE c.name = p_name AND NOT c.granted ORDER BY c.ticket
  LOOP
    IF v_weight IS NULL THEN
      SELECT coalesce(sum(c.weight), 0) INTO v_weight FROM lockfast.claim c
      WHERE c.name = p_name AND c.ticket < v_claim.ticket;
      SELECT min(c.ticket) INTO v_floor FROM lockfast.claim c WHERE c.name = p_name;
    END IF;
    v_weight := v_weight + v_claim.weight;
    EXIT WHEN v_weight > v_claim.capacity;
    UPDATE lockfast.claim SET granted = true WHERE id = v_claim.id;
    PERFORM pg_notify('lockfast_' || left(v_claim.id, 22), v_claim.id || ' ' || v_floor);
  END LOOP;
END
$$;

-- Lock a bucket, and then read the clock.
CREATE OR REPLACE FUNCTION lockfast.lock_v1(p_b integer) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
  PERFORM FROM lockfast.bucket WHERE b = p_b FOR UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'lockfast.bucket has lost its row %', p_b USING ERRCODE = 'undefined_table';
  END IF;
  RETURN lockfast.micros_v1();
END
$$;

-- Delete what has expired in a locked bucket, and let in whom that lets in. Where the clock went
-- back, no expiry stays further away than one life.
CREATE OR REPLACE FUNCTION lockfast.sweep_v1(p_b integer, p_now bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_names bytea[];
  v_name  bytea;
BEGIN
  WITH gone AS (
    DELETE FROM lockfast.claim c WHERE c.b = p_b AND c.expires <= p_now RETURNING c.name
  )
  SELECT array_agg(DISTINCT gone.name) INTO v_names FROM gone;
  UPDATE lockfast.bucket SET seen = p_now WHERE b = p_b AND seen > p_now;
  IF FOUND THEN
    UPDATE lockfast.claim c SET expires = p_now + CASE WHEN c.granted THEN c.ttl ELSE c.wait_ttl END
    WHERE c.b = p_b AND c.expires > p_now + CASE WHEN c.granted THEN c.ttl ELSE c.wait_ttl END;
  END IF;
  IF v_names IS NOT NULL THEN
    FOREACH v_name IN ARRAY v_names LOOP
      PERFORM lockfast.promote_v1(v_name);
    END LOOP;
  END IF;
  DELETE FROM lockfast.tombstone t WHERE t.b = p_b AND t.until <= p_now;
END
$$;

-- Where a claim stands: no row if it is gone. `recheck`: for the first in line, the time until the
-- next expiry. The head is shown to those that wait.
CREATE OR REPLACE FUNCTION lockfast.standing_v1(p_name bytea, p_id text, p_now bigint)
RETURNS TABLE (
  ticket bigint, granted boolean, remains bigint, ahead bigint, behind bigint, floor bigint,
  recheck bigint, head_id text, head_ticket bigint, head_payload text
) LANGUAGE plpgsql AS $$
DECLARE
  v_waiting bigint;
  v_next    bigint;
BEGIN
  SELECT c.ticket, c.granted, c.expires - p_now INTO ticket, granted, remains
  FROM lockfast.claim c WHERE c.id = p_id AND c.name = p_name;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  SELECT count(*) FILTER (WHERE c.ticket < standing_v1.ticket),
         count(*) FILTER (WHERE c.ticket > standing_v1.ticket AND NOT c.granted),
         count(*) FILTER (WHERE c.ticket < standing_v1.ticket AND NOT c.granted),
         min(c.ticket), min(c.expires) - p_now
  INTO ahead, behind, v_waiting, floor, v_next
  FROM lockfast.claim c WHERE c.name = p_name;
  IF NOT granted THEN
    SELECT c.id, c.ticket, encode(c.payload, 'hex') INTO head_id, head_ticket, head_payload
    FROM lockfast.claim c WHERE c.name = p_name AND c.ticket = standing_v1.floor;
    IF v_waiting = 0 THEN
      recheck := v_next;
    END IF;
  END IF;
  RETURN NEXT;
END
$$;

-- Append a claim, or find it, and report its standing.
--
-- p_late  its latest time, by this server's clock      p_base  added to the clock in new tickets
--
-- One row, with the time. Without a ticket: the id is dead, or another capacity rules. With ticket 0:
-- it was not to queue, and did not fit.
CREATE OR REPLACE FUNCTION lockfast.claim_v1(
  p_name bytea, p_id text, p_capacity integer, p_weight integer, p_ttl bigint, p_wait_ttl bigint,
  p_queue boolean, p_late bigint, p_base bigint, p_payload bytea
) RETURNS TABLE (
  clock bigint, ruling integer, ticket bigint, granted boolean, remains bigint, ahead bigint,
  behind bigint, floor bigint, recheck bigint, head_id text, head_ticket bigint, head_payload text
) LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
  v_b      integer := lockfast.bucket_v1(p_name);
  v_head   record;
  v_weight bigint;
  v_ticket bigint;
  v_fits   boolean;
BEGIN
  PERFORM lockfast.enter_v1();
  clock := lockfast.lock_v1(v_b);
  IF clock > p_late
    OR EXISTS (SELECT FROM lockfast.tombstone t WHERE t.id = p_id AND t.until > clock) THEN
    RETURN NEXT;
    RETURN;
  END IF;
  PERFORM lockfast.sweep_v1(v_b, clock);
  IF NOT EXISTS (SELECT FROM lockfast.claim c WHERE c.id = p_id AND c.name = p_name) THEN
    SELECT count(*), coalesce(sum(c.weight), 0) INTO ahead, v_weight
    FROM lockfast.claim c WHERE c.name = p_name;
    v_fits := v_weight + p_weight <= p_capacity;
    IF ahead > 0 THEN
      SELECT c.id, c.ticket, c.capacity, c.payload INTO v_head FROM lockfast.claim c
      WHERE c.name = p_name ORDER BY c.ticket LIMIT 1;
      IF v_head.capacity <> p_capacity THEN
        ruling := v_head.capacity;
        RETURN NEXT;
        RETURN;
      END IF;
      IF NOT v_fits AND NOT p_queue THEN
        ticket := 0;
        granted := false;
        remains := 0;
        behind := 0;
        floor := 0;
        head_id := v_head.id;
        head_ticket := v_head.ticket;
        head_payload := encode(v_head.payload, 'hex');
        RETURN NEXT;
        RETURN;
      END IF;
    END IF;
    UPDATE lockfast.bucket SET last = greatest(last + 1, clock + p_base), seen = clock
    WHERE b = v_b RETURNING last INTO v_ticket;
    IF v_ticket >= 9007199254740992 THEN
      RAISE EXCEPTION 'ticket % would reach 2^53: the clock or token_base is wrong', v_ticket;
    END IF;
    INSERT INTO lockfast.claim
      (id, b, name, ticket, granted, capacity, weight, ttl, wait_ttl, expires, payload)
    VALUES
      (p_id, v_b, p_name, v_ticket, v_fits, p_capacity, p_weight, p_ttl, p_wait_ttl,
       clock + CASE WHEN v_fits THEN p_ttl ELSE p_wait_ttl END, p_payload);
  END IF;
  SELECT s.* INTO ticket, granted, remains, ahead, behind, floor, recheck, head_id, head_ticket, head_payload
  FROM lockfast.standing_v1(p_name, p_id, clock) s;
  RETURN NEXT;
END
$$;

-- Extend claims to their full life from now, never shortening, and report their standings.
--
-- One row per claim, with its place in the arrays; without a ticket if it is gone. Buckets are
-- locked in their order, so that two batches cannot block each other.
CREATE OR REPLACE FUNCTION lockfast.renew_v1(p_names bytea[], p_ids text[])
RETURNS TABLE (
  place bigint, clock bigint, ticket bigint, granted boolean, remains bigint, ahead bigint,
  behind bigint, floor bigint, recheck bigint, head_id text, head_ticket bigint, head_payload text
) LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
  v_ask record;
  v_b   integer;
BEGIN
  PERFORM lockfast.enter_v1();
  FOR v_ask IN
    SELECT lockfast.bucket_v1(a.name) AS b, a.name, a.id, a.place
    FROM unnest(p_names, p_ids) WITH ORDINALITY a(name, id, place) ORDER BY 1, a.place
  LOOP
    IF v_b IS DISTINCT FROM v_ask.b THEN
      v_b := v_ask.b;
      clock := lockfast.lock_v1(v_b);
      PERFORM lockfast.sweep_v1(v_b, clock);
      UPDATE lockfast.bucket SET seen = clock WHERE b = v_b AND seen < clock;
    END IF;
    UPDATE lockfast.claim c
    SET expires = greatest(c.expires, clock + CASE WHEN c.granted THEN c.ttl ELSE c.wait_ttl END)
    WHERE c.id = v_ask.id AND c.name = v_ask.name;
    place := v_ask.place;
    SELECT s.* INTO ticket, granted, remains, ahead, behind, floor, recheck, head_id, head_ticket, head_payload
    FROM lockfast.standing_v1(v_ask.name, v_ask.id, clock) s;
    RETURN NEXT;
  END LOOP;
END
$$;

-- Remove claims for good, and tell whom that lets in.
--
-- p_untils  per claim NULL or, when a copy may still be on its way, the time until which its
--           tombstone must stand, by this server's clock; at least a second from now
--
-- One row per claim, with its place in the arrays.
CREATE OR REPLACE FUNCTION lockfast.resign_v1(p_names bytea[], p_ids text[], p_untils bigint[])
RETURNS TABLE (place bigint, removed boolean) LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
  v_ask record;
  v_b   integer;
  v_now bigint;
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
    DELETE FROM lockfast.claim c WHERE c.id = v_ask.id AND c.name = v_ask.name;
    place := v_ask.place;
    removed := FOUND;
    IF removed THEN
      PERFORM lockfast.promote_v1(v_ask.name);
    END IF;
    RETURN NEXT;
  END LOOP;
END
$$;
