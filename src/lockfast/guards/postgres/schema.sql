-- What the guard needs in a PostgreSQL database (13 or later). Safe to run again.
--
-- mark  one row per name: the highest token that was seen, and the id of the claim that showed it.
--       It is never deleted: without its mark a name lets the stale in again.
--
-- Refusals have SQLSTATEs of their own:
--   LF001  stale: the detail is the token that stands and, in hexadecimal, the name
--   LF002  no token was shown
--   LF003  the engine, in this very database, no longer has the lease; the detail as above
--
-- The check is an UPDATE of the mark, also when nothing changes: it locks the mark's row to the end
-- of the transaction, so that no later holder can seal before this transaction has ended; and under
-- REPEATABLE READ and SERIALIZABLE a seal since the snapshot is a serialization failure.

--
-- Who may do what: a writer has EXECUTE on enter_v1, seal_v1, held_v1 and demand_v1 (grant_v1 gives it),
-- and no right to the marks. Those four are SECURITY DEFINER, so a writer can raise a mark, and never
-- lower or delete one. Triggers run as the writer: they turn rows of any type into JSON, and a type's own
-- casts must not run as the marks' owner.
--
-- Every function has a fixed search_path, because whoever may CREATE in a schema on the caller's path
-- could otherwise put a function or an operator of his own in front of PostgreSQL's, and have it run as
-- the caller, or as the owner. admit_v1 and bound_v1 have none of their own, for speed: only the owner
-- may call them, and otherwise they run beneath one of the four.

-- The installation itself runs on a fixed path too, and leaves the transaction's own behind.
SELECT pg_catalog.set_config('lockfast.path', pg_catalog.current_setting('search_path'), true);
SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);

SELECT pg_advisory_xact_lock(7812736409124); -- two installations at once would disturb each other

CREATE SCHEMA IF NOT EXISTS lockfast_guard;

-- The owner of a schema can replace what is in it: one whom the installer has no reason to trust may have
-- made it beforehand.
DO $$
DECLARE
  v_owner name := (SELECT pg_get_userbyid(nspowner) FROM pg_namespace WHERE nspname = 'lockfast_guard');
BEGIN
  IF v_owner <> current_user
    AND NOT (SELECT rolsuper FROM pg_roles WHERE rolname = v_owner)
    AND v_owner <> (SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = current_database())
  THEN
    RAISE EXCEPTION 'the schema lockfast_guard belongs to %, not to %', v_owner, current_user
      USING ERRCODE = 'insufficient_privilege',
        HINT = 'Install as its owner, or give it to you first: ALTER SCHEMA lockfast_guard OWNER TO ...';
  END IF;
END
$$;

-- Room in every page, so that an update stays in its page and touches no index.
CREATE TABLE IF NOT EXISTS lockfast_guard.mark (
  name   bytea  PRIMARY KEY,   -- UTF-8; a text cannot hold NUL
  token  bigint NOT NULL,
  id     text   NOT NULL,      -- empty where a reader has raised the mark to its floor
  passed xid8   NOT NULL       -- the transaction that was let in last: the trigger looks for its own
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

CREATE OR REPLACE FUNCTION lockfast_guard.keep_v1() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION 'marks are kept for ever: without its mark a name lets stale holders in again';
END
$$;

DO $$
BEGIN
  IF NOT EXISTS (
    SELECT FROM pg_trigger WHERE tgrelid = 'lockfast_guard.mark'::regclass AND tgname = 'keep'
  ) THEN
    CREATE TRIGGER keep BEFORE DELETE OR TRUNCATE ON lockfast_guard.mark
      EXECUTE FUNCTION lockfast_guard.keep_v1();
  END IF;
END
$$;

-- ALWAYS: session_replication_role must not switch it off.
ALTER TABLE lockfast_guard.mark ENABLE ALWAYS TRIGGER keep;

-- The rule: let a holder in, and raise the mark; or refuse it.
--
-- p_floor  what the mark is raised to: the token, or for a reader the floor of its grant
CREATE OR REPLACE PROCEDURE lockfast_guard.admit_v1(
  p_name bytea, p_token bigint, p_id text, p_floor bigint, p_shared boolean
) LANGUAGE plpgsql AS $$
DECLARE
  v_current bigint;
BEGIN
  -- No engine gives out such a token. As a mark, it would lock everybody out for good.
  IF p_token NOT BETWEEN 1 AND 9007199254740991 OR p_floor NOT BETWEEN 0 AND p_token
    OR p_name IS NULL OR p_token IS NULL OR p_floor IS NULL OR p_id IS NULL OR p_shared IS NULL THEN
    RAISE EXCEPTION 'lockfast: % is not a token (floor %)', p_token, p_floor
      USING ERRCODE = 'invalid_parameter_value', HINT = 'A token is 1 to 2^53 - 1.';
  END IF;
  FOR v_try IN 1..2 LOOP
    UPDATE lockfast_guard.mark m
    SET token = greatest(m.token, p_floor),
        id = CASE WHEN NOT p_shared THEN p_id WHEN p_floor > m.token THEN '' ELSE m.id END,
        passed = pg_current_xact_id()
    WHERE m.name = p_name
      AND (p_token > m.token OR (p_token = m.token AND (p_shared OR m.id = p_id)));
    IF FOUND THEN
      RETURN;
    END IF;
    INSERT INTO lockfast_guard.mark (name, token, id, passed)
    VALUES (p_name, p_floor, CASE WHEN p_shared THEN '' ELSE p_id END, pg_current_xact_id())
    ON CONFLICT (name) DO NOTHING;
    IF FOUND THEN
      RETURN;
    END IF;
    -- There is a mark: it refuses, or it has just been made by another. The second time it refuses.
  END LOOP;
  SELECT m.token INTO v_current FROM lockfast_guard.mark m WHERE m.name = p_name;
  RAISE EXCEPTION 'lockfast: token % on % is stale, token % has been there',
    p_token, encode(p_name, 'escape'), v_current
    USING ERRCODE = 'LF001', DETAIL = v_current || ' ' || encode(p_name, 'hex');
END
$$;

-- Let neither a wait for a lock nor a pause of the client be longer than a lease is good, or a holder
-- that has lost it would block the next one. Milliseconds, as text.
CREATE OR REPLACE FUNCTION lockfast_guard.bound_v1(p_patience text) RETURNS boolean
LANGUAGE sql AS $$
  SELECT pg_catalog.set_config('lock_timeout', p_patience, true) IS NOT NULL
     AND pg_catalog.set_config('idle_in_transaction_session_timeout', p_patience, true) IS NOT NULL
$$;

-- The rule as the first thing in a transaction. A procedure: CALL has no rows to read.
CREATE OR REPLACE PROCEDURE lockfast_guard.enter_v1(
  p_name bytea, p_token bigint, p_id text, p_floor bigint, p_shared boolean, p_patience text
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  -- What nearly every call comes to, in one statement: the limits are set when the row is found, so
  -- before it is locked. The whole rule costs half as much again.
  UPDATE lockfast_guard.mark SET token = p_token, id = p_id, passed = pg_current_xact_id()
  WHERE name = p_name AND token = p_token AND id = p_id AND lockfast_guard.bound_v1(p_patience);
  IF NOT FOUND THEN
    PERFORM lockfast_guard.bound_v1(p_patience);
    CALL lockfast_guard.admit_v1(p_name, p_token, p_id, p_floor, p_shared);
  END IF;
END
$$;

-- The same, to be committed by itself: it has to be on disk before the holder reads.
CREATE OR REPLACE PROCEDURE lockfast_guard.seal_v1(
  p_name bytea, p_token bigint, p_id text, p_floor bigint, p_shared boolean, p_patience text
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
  CALL lockfast_guard.enter_v1(p_name, p_token, p_id, p_floor, p_shared, p_patience);
END
$$;

-- Where the engine is in this database: hold the claim itself to the end of the transaction, so that
-- the engine cannot give its place away before; or refuse. A renewal is not held up.
CREATE OR REPLACE PROCEDURE lockfast_guard.held_v1(p_name bytea, p_id text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM FROM lockfast.claim c
  WHERE c.id = p_id AND c.name = p_name AND NOT c.waits AND c.expires > lockfast.micros_v1()
  FOR KEY SHARE;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'lockfast: the lease % on % is gone', p_id, encode(p_name, 'escape')
      USING ERRCODE = 'LF003', DETAIL = '0 ' || encode(p_name, 'hex');
  END IF;
END
$$;

-- Demand that this transaction was let in under a name, or that SET LOCAL shows what lets it in.
-- A setting that was SET LOCAL in an earlier transaction is an empty string: that is no token.
CREATE OR REPLACE FUNCTION lockfast_guard.demand_v1(p_name text, p_table text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_name  bytea := convert_to(p_name, 'UTF8');
  v_token text  := nullif(current_setting('lockfast.token', true), '');
  v_id    text  := nullif(current_setting('lockfast.id', true), '');
BEGIN
  IF EXISTS (
    SELECT FROM lockfast_guard.mark m WHERE m.name = v_name AND m.passed = pg_current_xact_id()
  ) THEN
    RETURN;
  END IF;
  IF v_token IS NULL OR v_id IS NULL
    OR current_setting('lockfast.name', true) IS DISTINCT FROM p_name THEN
    RAISE EXCEPTION 'lockfast: a write to % needs the token of the lock %', p_table, p_name
      USING ERRCODE = 'LF002', HINT = 'Write within guard.transaction(lease), or SET LOCAL '
        'lockfast.name, lockfast.token and lockfast.id to those of the lease.';
  END IF;
  CALL lockfast_guard.admit_v1(v_name, v_token::bigint, v_id, v_token::bigint, false);
END
$$;

-- The trigger's arguments are the parts of a name: text, a column, text, a column, ..., text.
CREATE OR REPLACE FUNCTION lockfast_guard.named_v1(p_parts text[], p_row jsonb) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT string_agg(CASE WHEN place % 2 = 1 THEN part ELSE coalesce(p_row ->> part, '') END, ''
                    ORDER BY place)
  FROM unnest(p_parts) WITH ORDINALITY parts(part, place)
$$;

CREATE OR REPLACE FUNCTION lockfast_guard.row_v1() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF TG_NARGS = 1 THEN
    PERFORM lockfast_guard.demand_v1(TG_ARGV[0], TG_RELID::regclass::text);
    RETURN NULL;
  END IF;
  IF TG_OP <> 'INSERT' THEN
    PERFORM lockfast_guard.demand_v1(
      lockfast_guard.named_v1(TG_ARGV, to_jsonb(OLD)), TG_RELID::regclass::text);
  END IF;
  IF TG_OP <> 'DELETE' THEN
    PERFORM lockfast_guard.demand_v1(
      lockfast_guard.named_v1(TG_ARGV, to_jsonb(NEW)), TG_RELID::regclass::text);
  END IF;
  RETURN NULL;
END
$$;

CREATE OR REPLACE FUNCTION lockfast_guard.truncate_v1() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF TG_NARGS > 1 THEN
    RAISE EXCEPTION 'lockfast: no one lock covers all rows of %', TG_RELID::regclass
      USING ERRCODE = 'LF002', HINT = 'Delete the rows, each under its own lock.';
  END IF;
  PERFORM lockfast_guard.demand_v1(TG_ARGV[0], TG_RELID::regclass::text);
  RETURN NULL;
END
$$;

-- A table, and all its partitions.
CREATE OR REPLACE FUNCTION lockfast_guard.parts_v1(p_table regclass) RETURNS SETOF regclass
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT p_table UNION SELECT relid FROM pg_partition_tree(p_table)
$$;

CREATE OR REPLACE FUNCTION lockfast_guard.unprotect_v1(p_table regclass) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_part regclass;
BEGIN
  EXECUTE format('DROP TRIGGER IF EXISTS lockfast_guard ON %s', p_table);
  FOR v_part IN SELECT * FROM lockfast_guard.parts_v1(p_table) LOOP
    EXECUTE format('DROP TRIGGER IF EXISTS lockfast_guard_truncate ON %s', v_part);
  END LOOP;
END
$$;

-- Have a table refuse every write that does not show a current token of its lock.
--
-- p_name  the lock: one name for the whole table, or with columns in braces a name per row, such as
--         invoice:{id}
--
-- The check is made at commit, so a transaction may show its token late, and the mark is locked only
-- then. ALWAYS: session_replication_role must not switch it off.
--
-- PostgreSQL gives a row trigger to the partitions, but not that for TRUNCATE, and it gives neither to
-- tables that inherit: a write to the parent would change their rows unseen. A partition that is made
-- later needs another call of this.
CREATE OR REPLACE FUNCTION lockfast_guard.protect_v1(p_table regclass, p_name text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_parts text[] := regexp_split_to_array(p_name, '[{}]');
  v_args  text;
  v_part  regclass;
BEGIN
  IF EXISTS (
    SELECT FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = p_table AND NOT c.relispartition
  ) THEN
    RAISE EXCEPTION 'tables inherit from %: a write to it changes their rows, which no trigger of it sees',
      p_table USING ERRCODE = 'wrong_object_type', HINT = 'Use partitions.';
  END IF;
  IF cardinality(v_parts) % 2 = 0 OR EXISTS (
    SELECT FROM unnest(v_parts) WITH ORDINALITY parts(part, place)
    WHERE place % 2 = 0 AND NOT EXISTS (
      SELECT FROM pg_attribute
      WHERE attrelid = p_table AND attname = part AND attnum > 0 AND NOT attisdropped
    )
  ) THEN
    RAISE EXCEPTION 'a lock''s name for % has columns of it in braces, this one has not: %',
      p_table, p_name;
  END IF;
  SELECT string_agg(quote_literal(part), ', ' ORDER BY place) INTO v_args
  FROM unnest(v_parts) WITH ORDINALITY parts(part, place);
  PERFORM lockfast_guard.unprotect_v1(p_table);
  EXECUTE format(
    'CREATE CONSTRAINT TRIGGER lockfast_guard AFTER INSERT OR UPDATE OR DELETE ON %s '
    'DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION lockfast_guard.row_v1(%s)',
    p_table, v_args);
  FOR v_part IN SELECT * FROM lockfast_guard.parts_v1(p_table) LOOP
    EXECUTE format(
      'CREATE TRIGGER lockfast_guard_truncate BEFORE TRUNCATE ON %s '
      'EXECUTE FUNCTION lockfast_guard.truncate_v1(%s)', v_part, v_args);
    EXECUTE format('ALTER TABLE ONLY %s ENABLE ALWAYS TRIGGER lockfast_guard', v_part);
    EXECUTE format('ALTER TABLE ONLY %s ENABLE ALWAYS TRIGGER lockfast_guard_truncate', v_part);
  END LOOP;
END
$$;

-- Let a role write under the guard. Whatever it was granted on the marks is revoked, but not the right to
-- read them.
CREATE OR REPLACE FUNCTION lockfast_guard.grant_v1(p_role text) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_role text := CASE WHEN p_role = 'public' THEN 'PUBLIC' ELSE quote_ident(p_role) END;
  v_call text;
BEGIN
  EXECUTE format('GRANT USAGE ON SCHEMA lockfast_guard TO %s', v_role);
  EXECUTE format(
    'REVOKE INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER ON lockfast_guard.mark FROM %s', v_role);
  FOR v_call IN
    SELECT p.oid::regprocedure::text FROM pg_proc p
    WHERE p.pronamespace = 'lockfast_guard'::regnamespace
      AND p.proname IN ('enter_v1', 'seal_v1', 'held_v1', 'demand_v1')
  LOOP
    EXECUTE format('GRANT EXECUTE ON ROUTINE %s TO %s', v_call, v_role);
  END LOOP;
END
$$;

-- What is left to PUBLIC does nothing that its caller could not do: it makes triggers on his own tables,
-- is called by them, or joins text.
DO $$
DECLARE
  v_call text;
BEGIN
  FOR v_call IN
    SELECT p.oid::regprocedure::text FROM pg_proc p
    WHERE p.pronamespace = 'lockfast_guard'::regnamespace
      AND p.proname NOT IN ('protect_v1', 'unprotect_v1', 'parts_v1', 'row_v1', 'truncate_v1', 'named_v1')
  LOOP
    EXECUTE format('REVOKE ALL ON ROUTINE %s FROM PUBLIC', v_call);
  END LOOP;
END
$$;

-- An earlier version had its users write to the marks: give those their new rights for the old.
DO $$
DECLARE
  v_role text;
BEGIN
  FOR v_role IN
    SELECT DISTINCT coalesce(r.rolname, 'public')
    FROM pg_class c, LATERAL aclexplode(c.relacl) a LEFT JOIN pg_roles r ON r.oid = a.grantee
    WHERE c.oid = 'lockfast_guard.mark'::regclass AND a.grantee <> c.relowner
      AND a.privilege_type IN ('INSERT', 'UPDATE')
  LOOP
    PERFORM lockfast_guard.grant_v1(v_role);
  END LOOP;
END
$$;

SELECT pg_catalog.set_config('search_path', pg_catalog.current_setting('lockfast.path', true), true);
