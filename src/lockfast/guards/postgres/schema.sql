-- The schema of the PostgreSQL guard (PostgreSQL 13 or later). Safe to run again.
--
-- mark  one row per lock: the highest token that was seen, and the id of the claim with that token.
--       Rows are never deleted: without its mark, a lock would admit stale holders again.
--
-- Refusals have SQLSTATEs of their own:
--   LF001  the token is stale. The detail is the token of the mark and, in hexadecimal, the lock's name
--   LF002  no token was shown
--   LF003  the engine, in this same database, no longer has the lease. The detail is 0 and the name
--
-- The check is an UPDATE of the mark, even if nothing changes. It locks the mark's row to the end of
-- the transaction, so that no later holder can seal before this transaction has ended. Under
-- REPEATABLE READ and SERIALIZABLE, a seal since the snapshot makes it a serialization failure.

--
-- Rights: a writer has EXECUTE on enter_v1, seal_v1, held_v1 and demand_v1 (granted by grant_v1), and
-- no right to the marks. Those four are SECURITY DEFINER, so a writer can raise a mark, and never lower
-- or delete one. Triggers run as the writer. They convert rows of any type to JSON, and the casts of a
-- user's type must not run as the owner of the marks.
--
-- Every function has a fixed search_path. Otherwise a user who may CREATE in a schema on the caller's
-- path could put a function or an operator of his own in front of PostgreSQL's, and have it run as the
-- caller or as the owner. admit_v1 and bound_v1 have no fixed path, for speed. Only the owner may call
-- them directly, and all other calls come from one of the four.

-- The installation runs with a fixed path too, and restores the transaction's own path at the end.
SELECT pg_catalog.set_config('lockfast.path', pg_catalog.current_setting('search_path'), true);
SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);

SELECT pg_advisory_xact_lock(7812736409124); -- two installations at the same time would conflict

CREATE SCHEMA IF NOT EXISTS lockfast_guard;

-- The owner of a schema can replace the functions in it, and a user whom the installer has no reason to
-- trust may have created it before. It must belong to the installer, a superuser or the database's owner.
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

-- fillfactor leaves room in every page, so that an update stays in its page and changes no index.
CREATE TABLE IF NOT EXISTS lockfast_guard.mark (
  name   bytea  PRIMARY KEY,   -- UTF-8; a text cannot hold NUL
  token  bigint NOT NULL,
  id     text   NOT NULL,      -- empty if a reader has raised the mark to its floor
  passed xid8   NOT NULL       -- the last transaction that was admitted: the trigger compares it with its own
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

CREATE OR REPLACE FUNCTION lockfast_guard.keep_v1() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION 'marks cannot be deleted: without its mark, a lock would admit stale holders again';
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

-- ALWAYS, so that session_replication_role cannot disable it.
ALTER TABLE lockfast_guard.mark ENABLE ALWAYS TRIGGER keep;

-- The rule of every guard: admit a holder and raise the mark, or refuse a stale holder.
--
-- p_floor  the value to which the mark is raised: the token, or for a reader the floor of its grant
CREATE OR REPLACE PROCEDURE lockfast_guard.admit_v1(
  p_name bytea, p_token bigint, p_id text, p_floor bigint, p_shared boolean
) LANGUAGE plpgsql AS $$
DECLARE
  v_current bigint;
BEGIN
  -- No engine gives out a token outside this range. As a mark, it would refuse every holder for ever.
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
    -- There is a mark. Either it refuses this holder, or another transaction has just inserted it. In
    -- that case the second round compares with it.
  END LOOP;
  SELECT m.token INTO v_current FROM lockfast_guard.mark m WHERE m.name = p_name;
  RAISE EXCEPTION 'lockfast: token % of the lock % is stale, the guard has already seen token %',
    p_token, encode(p_name, 'escape'), v_current
    USING ERRCODE = 'LF001', DETAIL = v_current || ' ' || encode(p_name, 'hex');
END
$$;

-- Limit waits for locks, and pauses of the client, to the time for which the lease is valid. Otherwise a
-- holder that has lost its lease could block the next one. p_patience is in milliseconds, as text.
CREATE OR REPLACE FUNCTION lockfast_guard.bound_v1(p_patience text) RETURNS boolean
LANGUAGE sql AS $$
  SELECT pg_catalog.set_config('lock_timeout', p_patience, true) IS NOT NULL
     AND pg_catalog.set_config('idle_in_transaction_session_timeout', p_patience, true) IS NOT NULL
$$;

-- Apply the rule at the start of a transaction. It is a procedure, since a CALL returns no rows to read.
CREATE OR REPLACE PROCEDURE lockfast_guard.enter_v1(
  p_name bytea, p_token bigint, p_id text, p_floor bigint, p_shared boolean, p_patience text
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  -- The common case, a mark that this claim has left before, takes one statement. bound_v1 runs when the
  -- row is found, so before it is locked. The whole rule would cost half as much again.
  UPDATE lockfast_guard.mark SET token = p_token, id = p_id, passed = pg_current_xact_id()
  WHERE name = p_name AND token = p_token AND id = p_id AND lockfast_guard.bound_v1(p_patience);
  IF NOT FOUND THEN
    PERFORM lockfast_guard.bound_v1(p_patience);
    CALL lockfast_guard.admit_v1(p_name, p_token, p_id, p_floor, p_shared);
  END IF;
END
$$;

-- The same for a seal, which is committed by itself. It must be on disk before the holder reads.
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

-- For an engine in this same database: lock the claim's row to the end of the transaction, so that the
-- engine cannot delete the claim and grant the lock to another before. Refuse if the claim is gone. The
-- row lock does not block renewals.
CREATE OR REPLACE PROCEDURE lockfast_guard.held_v1(p_name bytea, p_id text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM FROM lockfast.claim c
  WHERE c.id = p_id AND c.name = p_name AND NOT c.waits AND c.expires > lockfast.micros_v1()
  FOR KEY SHARE;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'lockfast: the engine no longer has the lease % on %', p_id, encode(p_name, 'escape')
      USING ERRCODE = 'LF003', DETAIL = '0 ' || encode(p_name, 'hex');
  END IF;
END
$$;

-- Refuse unless this transaction was admitted under the lock p_name, or SET LOCAL shows a valid token.
-- After a SET LOCAL in an earlier transaction, the setting is an empty string, which is not a token.
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

-- Return the lock's name for a row. p_parts are the trigger's arguments, the parts of the name: text, a
-- column, text, a column, ..., text.
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
    RAISE EXCEPTION 'lockfast: no single lock covers all rows of %', TG_RELID::regclass
      USING ERRCODE = 'LF002', HINT = 'Delete the rows, each under its own lock.';
  END IF;
  PERFORM lockfast_guard.demand_v1(TG_ARGV[0], TG_RELID::regclass::text);
  RETURN NULL;
END
$$;

-- Return a table and all its partitions.
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

-- Make a table refuse every write that does not show a current token of its lock.
--
-- p_name  the lock: one name for the whole table, or a name per row with columns in braces, such as
--         invoice:{id}
--
-- The trigger checks at commit. So a transaction may show its token late, and locks the mark only then.
-- ALWAYS, so that session_replication_role cannot disable the triggers.
--
-- PostgreSQL copies a row trigger to the partitions, but not a trigger for TRUNCATE. It copies neither to
-- tables that inherit, so a write to the parent would change their rows unchecked. Call this again after
-- adding a partition.
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
    RAISE EXCEPTION 'the lock''s name for % must have columns of that table in braces: %',
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

-- Allow a role to write under the guard. Its rights to change the marks are revoked, but not to read them.
CREATE OR REPLACE FUNCTION lockfast_guard.grant_v1(p_role text) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_role text := CASE WHEN p_role = 'public' THEN 'PUBLIC' ELSE quote_ident(p_role) END;
  v_call text;
BEGIN
  EXECUTE format('GRANT USAGE ON SCHEMA lockfast_guard TO %s', v_role);
  EXECUTE format(
    'REVOKE INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER%s ON lockfast_guard.mark FROM %s',
    CASE WHEN current_setting('server_version_num')::int >= 170000 THEN ', MAINTAIN' ELSE '' END, v_role);
  FOR v_call IN
    SELECT p.oid::regprocedure::text FROM pg_proc p
    WHERE p.pronamespace = 'lockfast_guard'::regnamespace
      AND p.proname IN ('enter_v1', 'seal_v1', 'held_v1', 'demand_v1')
  LOOP
    EXECUTE format('GRANT EXECUTE ON ROUTINE %s TO %s', v_call, v_role);
  END LOOP;
END
$$;

-- Revoke all functions from PUBLIC except some that do nothing that their caller could not do himself: they
-- create triggers on his own tables, are called by these triggers, or join text.
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

-- In an earlier version, writers had rights on the marks themselves. Replace those by the present rights.
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
