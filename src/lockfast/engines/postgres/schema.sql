-- The tables and functions of lockfast in a PostgreSQL database (13 or later). Safe to run again.
--
-- bucket     1,024 rows. Each row is the mutex of all names in its bucket, and mints their tickets. So
--            the order of tickets is the order of commits. Nothing is kept per name.
-- claim      the live claims. Times are in microseconds, by this server's clock.
-- broken     records of claims that were broken, for a day.
-- tombstone  ids that are refused until every copy of their claim is too late anyway.
--
-- Each operation is one VOLATILE function in a transaction of its own, in READ COMMITTED. Only at that
-- level does every statement see what was committed before the bucket's row was locked. The clock is read
-- under that lock. Expired claims are deleted. If queries only filtered them out, a lock could be granted
-- twice when the clock goes back.
--
-- Granted claims are ahead of waiting ones, so the queue of a name is its claims in the order of
-- (waits, ticket). The last claim of a queue carries the totals of the whole queue, so no query has to
-- count a long queue. Every query below finds its rows by exactly one index and in the order of that index,
-- whatever the planner estimates. None uses a bitmap scan, which would visit old dead rows.
--
-- Most claims are on a free name, and most claims that are renewed or resigned are alone in their queue. The
-- functions decide about these in one statement each, for all claims of a call together. That statement
-- leaves out every claim for which something else is to be done, such as a waiter to be granted. The others
-- follow one by one. PL/pgSQL prepares each of its expressions anew in every transaction, so the short way has
-- few of them.
--
-- The functions also set what a session could set otherwise. Without index scans, a query would read whole
-- tables. A plan for the values of one call would be made anew for each call, because a list of one id looks
-- cheaper than the list that a generic plan is made for. With JIT, PostgreSQL would compile a query that it
-- takes for expensive, for example because sorts are disabled. For a batch of claims that took 1.2 seconds of
-- CPU time in each call, with the buckets locked.
--
-- The functions wait for a lock for two seconds at most, and the client tries again until its own deadline.
-- A server does not notice that a client has given up, so with longer waits such connections would pile up.
--
-- Rights: a lock user has EXECUTE on both claim_v2, renew_v2, resign_v2, show_v2, record_v2, records_v2,
-- attach_v2 and depart_v2 (by grant_v2), and no right to the tables. These are SECURITY DEFINER with a fixed search_path.
-- Otherwise a user who may CREATE in a schema on the caller's path could put a function or an operator in
-- front of PostgreSQL's own, and have it run with the rights of the caller or of the owner. All other
-- functions are for the owner alone. Except for grant_v2, they are called by these nine, and so run on the
-- same path. They do not set it themselves, because a SET on every function cost 30 % of the rate of
-- acquire and release, and a SET on the nine alone costs less than 5 %.
--
-- Formats: format_v1 returns the format of what is stored. Each row of `claim` shows its own format by its
-- kind. Rows of format 0, from before lockfast 0.1, have the kind 0, which the column got as its default
-- when it was added. Rows of format 1 have a kind from 1 to 3. Rows of a later format f have a kind of at
-- least 100 * f. The functions refuse claims on a name that has live rows of another format. They neither
-- renew nor grant such rows, and delete them when they have expired. So the columns id, b, name, ticket, kind
-- and expires mean the same in every format.
--
-- Upgrades: a client calls the functions of its own version, and clients of two versions run side by side
-- while an application is deployed. So a release that changes what is stored follows these rules:
--
-- - A new column has a constant default, so that no table is rewritten, and the functions of the release
--   before can insert rows without it. A later release drops the default.
-- - Functions that change become `_v3`. The functions `_v2` stay for one release. They keep their
--   signatures, and get new bodies that maintain what `_v3` relies on.
-- - If `_v2` cannot maintain it, the release increases the format, and `_v2` raises an error that names
--   both formats, as `_v1` does below.
-- - An installation locks a table only if it changes the table. It locks tables in the order in which the
--   functions use them, so that it cannot deadlock with clients: bucket, claim, tombstone, broken.
-- - It drops no function that the clients of the release before call, even to create it anew. PostgreSQL
--   does not lock a function that it has looked up, so a call under way could fail.
-- - An installation of a lower format is refused: see older_v1.

-- The installation itself runs on a fixed search_path too. Its last statement restores the transaction's own.
SELECT pg_catalog.set_config('lockfast.path', pg_catalog.current_setting('search_path'), true);
SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);

SELECT pg_advisory_xact_lock(7812736409123); -- two concurrent installations would collide

CREATE SCHEMA IF NOT EXISTS lockfast;

-- The owner of a schema can replace what is in it. So refuse a schema that somebody has created beforehand
-- whom the installer has no reason to trust.
DO $$
DECLARE
  v_owner name := (SELECT pg_get_userbyid(nspowner) FROM pg_namespace WHERE nspname = 'lockfast');
BEGIN
  IF v_owner <> current_user
    AND NOT (SELECT rolsuper FROM pg_roles WHERE rolname = v_owner)
    AND v_owner <> (SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = current_database())
  THEN
    RAISE EXCEPTION 'the schema lockfast belongs to %, not to %', v_owner, current_user
      USING ERRCODE = 'insufficient_privilege',
        HINT = 'Install as its owner, or give it to you first: ALTER SCHEMA lockfast OWNER TO ...';
  END IF;
END
$$;

DO $$
DECLARE
  v_format integer := 0;
BEGIN
  IF to_regprocedure('lockfast.format_v1()') IS NOT NULL THEN
    v_format := lockfast.format_v1();
  END IF;
  IF v_format > 1 THEN
    RAISE EXCEPTION 'the schema lockfast has format %, and this version of lockfast installs format 1',
      v_format USING ERRCODE = 'feature_not_supported', HINT = 'Upgrade lockfast. Nothing was changed.';
  END IF;
  -- A later version may have the same format. Its functions rely on bodies of ours that it has replaced.
  IF EXISTS (
    SELECT FROM pg_proc p WHERE p.pronamespace = 'lockfast'::regnamespace
      AND p.proname ~ '^(claims?|renew|resign|show|records?)_v([3-9]|[1-9][0-9]+)$'
  ) THEN
    RAISE EXCEPTION 'a later version of lockfast has installed the schema lockfast'
      USING ERRCODE = 'feature_not_supported', HINT = 'Upgrade lockfast. Nothing was changed.';
  END IF;
END
$$;

CREATE OR REPLACE FUNCTION lockfast.format_v1() RETURNS integer LANGUAGE sql IMMUTABLE AS $$
  SELECT 1
$$;

-- Refuse the installation of a lower format, which would replace functions of this one. This is a trigger on
-- `bucket`, because installations of format 0, which do not know of formats, insert its rows. Later ones
-- name their format in the setting lockfast.format.
CREATE OR REPLACE FUNCTION lockfast.older_v1() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_format integer := coalesce(nullif(current_setting('lockfast.format', true), ''), '0');
BEGIN
  IF v_format < lockfast.format_v1() THEN
    RAISE EXCEPTION 'this version of lockfast installs format %, the schema lockfast has format %: '
      'upgrade lockfast', v_format, lockfast.format_v1() USING ERRCODE = 'feature_not_supported';
  END IF;
  RETURN NULL;
END
$$;

-- Return the timeline of this server, which changes with a promotion. Return '' if it is not known: on a
-- standby, which cannot write anyway, and where the functions are forbidden or missing (Aurora has no WAL
-- files).
CREATE OR REPLACE FUNCTION lockfast.line_v1() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  IF pg_is_in_recovery() THEN
    RETURN '';
  END IF;
  RETURN left(pg_walfile_name(pg_current_wal_lsn()), 8);
EXCEPTION WHEN OTHERS THEN
  RETURN '';
END
$$;

-- Return how many promotions lie between two timelines: 0 if they are equal or the new one is not known,
-- else at least 1.
CREATE OR REPLACE FUNCTION lockfast.promotions_v1(p_from text, p_to text) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN p_to IN (p_from, '') THEN 0 WHEN p_from = '' THEN 1
    ELSE greatest(1, ('x' || p_to)::bit(32)::bigint - ('x' || p_from)::bit(32)::bigint) END
$$;

-- The fillfactor leaves room in every page, so that an updated row stays in its page and no index changes.
CREATE TABLE IF NOT EXISTS lockfast.bucket (
  b    integer PRIMARY KEY,
  last bigint NOT NULL DEFAULT 0, -- the highest ticket that it has minted
  seen bigint NOT NULL DEFAULT 0, -- the clock when its row was last locked
  line text   NOT NULL DEFAULT lockfast.line_v1() -- the timeline of its last ticket, if known
) WITH (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

DO $$
BEGIN
  IF (SELECT count(*) FROM lockfast.bucket) < 1024 THEN
    PERFORM set_config('lockfast.format', '1', true);
    INSERT INTO lockfast.bucket (b) SELECT generate_series(0, 1023) ON CONFLICT DO NOTHING;
    PERFORM set_config('lockfast.format', '', true);
  END IF;
END
$$;

CREATE TABLE IF NOT EXISTS lockfast.claim (
  id       text PRIMARY KEY,
  b        integer NOT NULL,
  name     bytea   NOT NULL, -- UTF-8; the type text cannot hold NUL
  ticket   bigint  NOT NULL,
  waits    boolean NOT NULL, -- false: it is granted
  capacity integer NOT NULL,
  weight   integer NOT NULL,
  ttl      bigint  NOT NULL,
  wait_ttl bigint  NOT NULL,
  expires  bigint  NOT NULL,
  place    bigint  NOT NULL, -- one more than the place of the queue's last claim when it was appended
  claims   integer NOT NULL, -- the totals, valid only in the last claim of a queue: how many there are,
  waiting  integer NOT NULL, -- how many of them wait,
  held     bigint  NOT NULL, -- the weight of those that are granted
  payload  bytea   NOT NULL,
  owner    name    NOT NULL DEFAULT '', -- the role that logged in to make the claim, which resign_v2 checks.
                                        -- Empty in rows of an early version, which did not have this column
  word     text    NOT NULL DEFAULT '', -- a secret of the client and the server, which signs the
                                        -- notification of the grant. Every user of a database may notify
                                        -- every channel, and every lock user can list the ids
  kind     smallint NOT NULL -- 1: lock, 2: read/write lock, 3: semaphore. All other numbers are of other
                             -- formats: see above. It has no default, so that functions of format 0 cannot
                             -- insert
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

CREATE TABLE IF NOT EXISTS lockfast.tombstone (
  id    text NOT NULL,
  b     integer NOT NULL,
  until bigint  NOT NULL,
  owner name    NOT NULL DEFAULT '', -- the role that resigned: claim_v2 checks whether that counts
  PRIMARY KEY (id, owner)
);

-- To which connection of the service a claim belongs: see attach_v2. Apart from `claim`, whose rows are written
-- by all clients, also by those of versions that do not know this.
DO $$
BEGIN
  IF to_regclass('lockfast.attached') IS NULL THEN
    CREATE TABLE lockfast.attached (
      id    text   NOT NULL, -- of a claim, which may not exist
      owner name   NOT NULL,
      epoch bigint NOT NULL,
      until bigint NOT NULL,
      PRIMARY KEY (id, owner)
    );
    CREATE INDEX attached_expiry ON lockfast.attached (until);
  END IF;
END
$$;

CREATE TABLE IF NOT EXISTS lockfast.broken (
  id     text   PRIMARY KEY, -- of the claim that was broken
  name   bytea  NOT NULL,
  at     bigint NOT NULL,
  record bytea  NOT NULL
);

-- Add what a new installation or one of an earlier version does not have. Even an ALTER TABLE or a CREATE
-- INDEX with IF NOT EXISTS locks its table first, and all clients would wait. So look first.
DO $$
BEGIN
  IF (
    SELECT count(*) FROM pg_attribute a
    WHERE NOT a.attisdropped AND (a.attrelid, a.attname) IN (
      ('lockfast.claim'::regclass, 'owner'), ('lockfast.claim'::regclass, 'word'),
      ('lockfast.claim'::regclass, 'kind'), ('lockfast.tombstone'::regclass, 'owner')
    ) AND NOT (a.attname = 'kind' AND a.atthasdef)
  ) = 4 AND (
    SELECT count(*) FROM pg_class c
    WHERE c.relnamespace = 'lockfast'::regnamespace AND c.relname IN (
      'claim_queue', 'claim_expiry', 'tombstone_expiry', 'broken_name', 'broken_at')
  ) = 5 AND EXISTS (
    SELECT FROM pg_trigger t WHERE t.tgrelid = 'lockfast.bucket'::regclass AND t.tgname = 'older'
  ) AND (SELECT i.indnatts FROM pg_index i WHERE i.indexrelid = 'lockfast.tombstone_pkey'::regclass) = 2
  THEN
    RETURN;
  END IF;
  LOCK TABLE lockfast.bucket, lockfast.claim, lockfast.tombstone, lockfast.broken
  IN ACCESS EXCLUSIVE MODE;
  ALTER TABLE lockfast.claim
    ADD COLUMN IF NOT EXISTS owner name NOT NULL DEFAULT '',
    ADD COLUMN IF NOT EXISTS word text NOT NULL DEFAULT '',
    ADD COLUMN IF NOT EXISTS kind smallint NOT NULL DEFAULT 0;
  ALTER TABLE lockfast.claim ALTER COLUMN kind DROP DEFAULT;
  -- The first version had one tombstone per id. With one per id and role, the tombstone of a role that does
  -- not count cannot take the place of one that counts.
  ALTER TABLE lockfast.tombstone ADD COLUMN IF NOT EXISTS owner name NOT NULL DEFAULT '';
  IF (SELECT i.indnatts FROM pg_index i WHERE i.indexrelid = 'lockfast.tombstone_pkey'::regclass) = 1 THEN
    ALTER TABLE lockfast.tombstone DROP CONSTRAINT tombstone_pkey;
    ALTER TABLE lockfast.tombstone ADD PRIMARY KEY (id, owner);
  END IF;
  CREATE UNIQUE INDEX IF NOT EXISTS claim_queue ON lockfast.claim (name, waits, ticket);
  CREATE INDEX IF NOT EXISTS claim_expiry ON lockfast.claim (b, expires);
  CREATE INDEX IF NOT EXISTS tombstone_expiry ON lockfast.tombstone (b, until);
  CREATE INDEX IF NOT EXISTS broken_name ON lockfast.broken (name, at);
  CREATE INDEX IF NOT EXISTS broken_at ON lockfast.broken (at);
  DROP TRIGGER IF EXISTS older ON lockfast.bucket;
  CREATE TRIGGER older BEFORE INSERT ON lockfast.bucket
  FOR EACH STATEMENT EXECUTE FUNCTION lockfast.older_v1();
END
$$;

-- PostgreSQL inlines these two into the statements that call them, which a SET would prevent. So they
-- qualify every name.
CREATE OR REPLACE FUNCTION lockfast.micros_v1() RETURNS bigint LANGUAGE sql VOLATILE AS $$
  SELECT (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp())
          OPERATOR(pg_catalog.*) 1000000)::pg_catalog.int8
$$;

CREATE OR REPLACE FUNCTION lockfast.bucket_v1(p_name bytea) RETURNS integer LANGUAGE sql IMMUTABLE AS $$
  SELECT pg_catalog.get_byte(pg_catalog.sha256(p_name), 0) OPERATOR(pg_catalog.%) 4
         OPERATOR(pg_catalog.*) 256
         OPERATOR(pg_catalog.+) pg_catalog.get_byte(pg_catalog.sha256(p_name), 1)
$$;

-- Return whether a role may act on a claim of another: if it is the same role, a member of that role, or a
-- member of the schema's owner. Empty names are from rows of an earlier version, and always may.
CREATE OR REPLACE FUNCTION lockfast.may_v1(p_who name, p_whose name) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  IF p_who = p_whose OR p_who = '' OR p_whose = '' THEN
    RETURN true;
  END IF;
  RETURN coalesce((
    SELECT pg_has_role(w.oid, o.nspowner, 'MEMBER') OR pg_has_role(w.oid, r.oid, 'MEMBER')
    FROM pg_namespace o, pg_roles w LEFT JOIN pg_roles r ON r.rolname = p_whose
    WHERE o.nspname = 'lockfast' AND w.rolname = p_who
  ), false);
END
$$;

-- Raise an error if the role that logged in may not end a claim of this owner.
CREATE OR REPLACE FUNCTION lockfast.permit_v1(p_id text, p_owner name) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF NOT lockfast.may_v1(session_user, p_owner) THEN
    RAISE EXCEPTION 'the claim % was made by role %: % may not end it', p_id, p_owner, session_user
      USING ERRCODE = 'insufficient_privilege',
        HINT = 'Be a member of that role, or of the owner of the schema lockfast.';
  END IF;
END
$$;

-- Raise an error outside of READ COMMITTED, where the rule would not hold. Make sure that a grant is on disk
-- before it is reported.
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

-- Return whether enter_v1 has nothing to do. PostgreSQL inlines this function.
CREATE OR REPLACE FUNCTION lockfast.ready_v2() RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT current_setting('transaction_isolation') = 'read committed'
    AND current_setting('synchronous_commit') IN ('on', 'remote_apply')
$$;

-- Update the totals of a queue after claims were deleted from it. Then grant waiters in the order of tickets,
-- up to the first one that does not fit, and return the notes for tell_v1. A waiter fits if its weight and
-- the weight of all that are granted are at most its own capacity.
--
-- p_claims   how many were deleted                 p_waiting  how many of these waited
-- p_held     the weight of those that did not      p_last     the one of them with the highest ticket. If it
--            was the last claim of the queue, its totals are those of the queue
CREATE OR REPLACE FUNCTION lockfast.leave_v2(
  p_name bytea, p_claims bigint, p_waiting bigint, p_held bigint, p_last lockfast.claim
) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
  v_tail  lockfast.claim;
  v_claim record;
  v_floor bigint;
  v_notes text[];
BEGIN
  SELECT * INTO v_tail FROM lockfast.claim c
  WHERE c.name = p_name ORDER BY c.waits DESC, c.ticket DESC LIMIT 1;
  IF NOT FOUND OR v_tail.kind >= 100 THEN
    RETURN NULL;
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
      SELECT c.id, c.kind, c.capacity, c.weight, c.word, c.ticket FROM lockfast.claim c
      WHERE c.name = p_name AND c.waits ORDER BY c.waits, c.ticket
    LOOP
      EXIT WHEN v_claim.kind NOT BETWEEN 1 AND 3 OR v_tail.held + v_claim.weight > v_claim.capacity;
      v_tail.waiting := v_tail.waiting - 1;
      v_tail.held := v_tail.held + v_claim.weight;
      IF v_floor IS NULL AND v_tail.claims = 1 THEN
        v_floor := v_claim.ticket;
      ELSIF v_floor IS NULL THEN
        SELECT c.ticket INTO v_floor FROM lockfast.claim c
        WHERE c.name = p_name ORDER BY c.waits, c.ticket LIMIT 1;
      END IF;
      IF v_claim.id = v_tail.id THEN
        v_tail.waits := false; -- written below, together with the totals
      ELSE
        UPDATE lockfast.claim SET waits = false WHERE id = v_claim.id;
      END IF;
      v_notes := v_notes || concat_ws(' ', v_claim.id, v_floor,
        -- Not convert_to: a word without a form in UTF8 would raise an error, and nobody could leave.
        encode(sha256((replace(v_claim.word, chr(92), '') || ' ' || v_floor)::bytea), 'hex'));
    END LOOP;
  END IF;
  UPDATE lockfast.claim
  SET waits = v_tail.waits, claims = v_tail.claims, waiting = v_tail.waiting, held = v_tail.held
  WHERE id = v_tail.id;
  RETURN v_notes;
END
$$;

-- Notify the waiters that were granted. This is only for rare cases, because a server runs all commits with a
-- NOTIFY one after the other, each with its wait for the disk. A client that resigns gets the notes and sends
-- them itself, in a transaction that does not wait for the disk.
CREATE OR REPLACE FUNCTION lockfast.tell_v1(p_notes text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify('lockfast_' || left(n.note, 22), n.note) FROM unnest(p_notes) n(note);
END
$$;

-- Recompute the totals of a queue whose first claim waits, because somebody has deleted rows by hand. Then
-- grant the waiters that fit.
CREATE OR REPLACE FUNCTION lockfast.recount_v2(p_name bytea) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE lockfast.claim c SET claims = n.claims, waiting = n.waiting, held = n.held
  FROM (
    SELECT max(q.ticket) AS last, count(*) AS claims, count(*) FILTER (WHERE q.waits) AS waiting,
           coalesce(sum(q.weight) FILTER (WHERE NOT q.waits), 0) AS held
    FROM lockfast.claim q WHERE q.name = p_name
  ) n
  WHERE c.name = p_name AND c.ticket = n.last;
  PERFORM lockfast.tell_v1(lockfast.leave_v2(p_name, 0, 0, 0, NULL));
END
$$;

-- Return the time, in a locked bucket that was last locked at `p_seen`. If the clock went back since, shorten
-- every expiry in the bucket to at most one ttl from now, or one wait_ttl for a waiter.
CREATE OR REPLACE FUNCTION lockfast.clock_v1(p_b integer, p_seen bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  v_now bigint := lockfast.micros_v1();
BEGIN
  UPDATE lockfast.bucket SET seen = v_now WHERE b = p_b;
  IF p_seen > v_now THEN
    UPDATE lockfast.claim c SET expires = v_now + CASE WHEN c.waits THEN c.wait_ttl ELSE c.ttl END
    WHERE c.b = p_b AND c.expires > v_now + CASE WHEN c.waits THEN c.wait_ttl ELSE c.ttl END
      AND c.kind < 100;
  END IF;
  RETURN v_now;
END
$$;

-- Lock a bucket, and return the time.
CREATE OR REPLACE FUNCTION lockfast.lock_v1(p_b integer) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  v_seen bigint;
BEGIN
  UPDATE lockfast.bucket SET seen = greatest(seen, lockfast.micros_v1()) WHERE b = p_b
  RETURNING seen INTO v_seen;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'lockfast.bucket has lost its row %', p_b USING ERRCODE = 'undefined_table';
  END IF;
  -- The UPDATE may have read the clock before it waited for the lock, or the clock went back.
  IF lockfast.micros_v1() - v_seen BETWEEN 0 AND 1000 THEN
    RETURN v_seen;
  END IF;
  RETURN lockfast.clock_v1(p_b, v_seen);
END
$$;

-- Lock several buckets, in the order of their numbers, so that two calls cannot deadlock. Return the time.
CREATE OR REPLACE FUNCTION lockfast.lock_all_v2(p_bs integer[]) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  v_locked bigint;
  v_seen   bigint;
  v_now    bigint;
  v_b      integer;
BEGIN
  SELECT count(*), max(k.seen) INTO v_locked, v_seen
  FROM (SELECT l.b, l.seen FROM lockfast.bucket l WHERE l.b = ANY (p_bs) ORDER BY l.b FOR NO KEY UPDATE) k;
  -- A name that is NULL counts as a bucket that is lost.
  IF v_locked <> (SELECT count(DISTINCT coalesce(a.b, -1)) FROM unnest(p_bs) a(b)) THEN
    RAISE EXCEPTION 'lockfast.bucket has lost one of its rows %', p_bs USING ERRCODE = 'undefined_table';
  END IF;
  v_now := lockfast.micros_v1();
  IF v_seen > v_now THEN -- the clock went back
    FOR v_b, v_seen IN
      SELECT k.b, k.seen FROM lockfast.bucket k WHERE k.b = ANY (p_bs) AND k.seen > v_now
    LOOP
      v_now := greatest(v_now, lockfast.clock_v1(v_b, v_seen));
    END LOOP;
  END IF;
  RETURN v_now;
END
$$;

-- Delete the expired claims and tombstones of a locked bucket. Grant and notify the waiters that fit then.
CREATE OR REPLACE FUNCTION lockfast.sweep_v2(p_b integer, p_now bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_gone record;
BEGIN
  IF (SELECT c.expires FROM lockfast.claim c WHERE c.b = p_b ORDER BY c.expires LIMIT 1) <= p_now THEN
    FOR v_gone IN
      WITH gone AS (
        DELETE FROM lockfast.claim c WHERE c.b = p_b AND c.expires <= p_now
        RETURNING c AS claim
      )
      SELECT (g.claim).name AS name, count(*) AS claims,
             count(*) FILTER (WHERE (g.claim).waits) AS waiting,
             coalesce(sum((g.claim).weight) FILTER (WHERE NOT (g.claim).waits), 0)::bigint AS held,
             (array_agg(g.claim ORDER BY (g.claim).ticket DESC))[1] AS last
      FROM gone g GROUP BY 1
    LOOP
      PERFORM lockfast.tell_v1(
        lockfast.leave_v2(v_gone.name, v_gone.claims, v_gone.waiting, v_gone.held, v_gone.last));
    END LOOP;
  END IF;
  IF (SELECT t.until FROM lockfast.tombstone t WHERE t.b = p_b ORDER BY t.until LIMIT 1) <= p_now THEN
    DELETE FROM lockfast.tombstone t WHERE t.b = p_b AND t.until <= p_now;
  END IF;
END
$$;

-- Return the standing of a claim as words: ticket, granted, time left, ahead, behind, floor. For a waiter,
-- these follow: the time until the next expiry in the bucket (only for the first waiter; '-' for others), and
-- the head's id, its ticket, and its payload in hexadecimal digits. NULL if the claim is gone. The kind
-- alone if the claim is of another format.
--
-- `ahead` is exact for the first hundred and for the first waiter, and if no claim has left the queue from
-- its middle. Otherwise it is an upper bound, because claims that have left count as if they were ahead.
CREATE OR REPLACE FUNCTION lockfast.standing_v2(p_name bytea, p_id text, p_now bigint) RETURNS text
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
  IF v_mine.kind NOT BETWEEN 1 AND 3 THEN
    RETURN v_mine.kind;
  END IF;
  SELECT * INTO v_head FROM lockfast.claim c
  WHERE c.name = p_name ORDER BY c.waits, c.ticket LIMIT 1;
  SELECT * INTO v_tail FROM lockfast.claim c
  WHERE c.name = p_name ORDER BY c.waits DESC, c.ticket DESC LIMIT 1;
  IF v_head.waits AND v_head.kind BETWEEN 1 AND 3 AND v_tail.kind < 100 THEN
    PERFORM lockfast.recount_v2(p_name);
    RETURN lockfast.standing_v2(p_name, p_id, p_now);
  END IF;
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

-- Return whether these are the values of a claim. Our clients send no others. But a role that may only execute
-- could otherwise overfill a lock by a negative weight, use up the tickets, or make other clients misread their
-- replies. It could also make these replies as large as it likes, because the reply to each waiter contains the
-- head's payload. PostgreSQL inlines this function. A regular expression with a bound such as {1,64} takes 20 µs.
CREATE OR REPLACE FUNCTION lockfast.valid_v2(
  p_name bytea, p_id text, p_kind integer, p_capacity integer, p_weight integer, p_ttl bigint,
  p_wait_ttl bigint, p_queue boolean, p_late bigint, p_base bigint, p_payload bytea, p_word text
) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
  SELECT p_weight BETWEEN 1 AND p_capacity AND p_ttl BETWEEN 1 AND 4503599627370495
    AND p_wait_ttl BETWEEN 1 AND 4503599627370495 AND p_base BETWEEN 0 AND 4503599627370495
    AND p_late IS NOT NULL AND p_queue IS NOT NULL AND length(p_payload) <= 65536 AND length(p_name) <= 512
    AND length(p_id) BETWEEN 1 AND 64 AND length(p_word) <= 64 AND p_id || p_word !~ '[^0-9A-Za-z]'
    AND CASE p_kind
      WHEN 1 THEN p_capacity = 1
      WHEN 2 THEN p_capacity = 2147483647 AND p_weight IN (1, 2147483647)
      WHEN 3 THEN p_capacity < 2147483647
      ELSE false
    END
$$;

-- Raise an error about values for which valid_v2 does not return true.
CREATE OR REPLACE FUNCTION lockfast.refuse_v2(
  p_name bytea, p_id text, p_kind integer, p_capacity integer, p_weight integer, p_ttl bigint,
  p_wait_ttl bigint, p_base bigint, p_payload bytea
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION
    'not a claim: id %, kind %, weight % of %, ttl %, wait_ttl %, base %, bytes of name % and of payload %',
    quote_nullable(left(p_id, 65)), p_kind, p_weight, p_capacity, p_ttl, p_wait_ttl, p_base,
    length(p_name), length(p_payload) USING ERRCODE = 'invalid_parameter_value';
END
$$;

-- Append a claim to its queue in a locked bucket, with a ticket that was minted for it, or find it by its id.
-- Return what claim_v2 returns.
CREATE OR REPLACE FUNCTION lockfast.append_v2(
  p_b integer, p_now bigint, p_ticket bigint, p_name bytea, p_id text, p_kind integer, p_capacity integer,
  p_weight integer, p_ttl bigint, p_wait_ttl bigint, p_queue boolean, p_late bigint, p_payload bytea, p_word text
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  v_found text;
  v_tail  lockfast.claim;
  v_head  lockfast.claim;
  v_fits  boolean := true;
  v_tombs boolean;
  v_old   boolean;
BEGIN
  IF p_now > p_late THEN
    RETURN p_now;
  END IF;
  SELECT EXISTS (SELECT FROM lockfast.tombstone t WHERE t.b = p_b),
    EXISTS (SELECT FROM lockfast.claim c WHERE c.b = p_b AND c.expires <= p_now)
  INTO v_tombs, v_old;
  IF v_tombs AND EXISTS (
    SELECT FROM lockfast.tombstone t
    WHERE t.id = p_id AND t.until > p_now AND lockfast.may_v1(t.owner, session_user)
  ) THEN
    RETURN p_now;
  END IF;
  IF v_tombs OR v_old THEN
    PERFORM lockfast.sweep_v2(p_b, p_now);
  END IF;
  SELECT * INTO v_tail FROM lockfast.claim c
  WHERE c.name = p_name ORDER BY c.waits DESC, c.ticket DESC LIMIT 1;
  IF FOUND THEN
    IF v_tail.kind <> p_kind THEN -- of another kind, or of another format
      RETURN p_now || ' ' || v_tail.kind;
    END IF;
    v_found := lockfast.standing_v2(p_name, p_id, p_now);
    IF v_found IS NOT NULL THEN
      -- Another role has made a claim with this id, and can resign it. The caller must not take that
      -- claim for its own, so the id is dead for it.
      IF EXISTS (SELECT FROM lockfast.claim c WHERE c.id = p_id AND c.owner <> session_user) THEN
        RETURN p_now;
      END IF;
      RETURN p_now || ' ' || v_found;
    END IF;
    v_fits := NOT v_tail.waits AND v_tail.held + p_weight <= p_capacity;
    IF NOT v_fits AND NOT p_queue THEN
      SELECT * INTO v_head FROM lockfast.claim c
      WHERE c.name = p_name ORDER BY c.waits, c.ticket LIMIT 1;
      RETURN concat_ws(' ', p_now, 0, false, 0, v_tail.claims, 0, 0, '-', v_head.id, v_head.ticket,
        encode(v_head.payload, 'hex'));
    END IF;
  END IF;
  IF p_ticket >= 9007199254740992 THEN
    RAISE EXCEPTION 'ticket % would reach 2^53: the clock or token_base is wrong', p_ticket;
  END IF;
  INSERT INTO lockfast.claim
    (id, b, name, ticket, waits, capacity, weight, ttl, wait_ttl, expires,
     place, claims, waiting, held, payload, owner, word, kind)
  VALUES
    (p_id, p_b, p_name, p_ticket, NOT v_fits, p_capacity, p_weight, p_ttl, p_wait_ttl,
     p_now + CASE WHEN v_fits THEN p_ttl ELSE p_wait_ttl END,
     coalesce(v_tail.place, 0) + 1, coalesce(v_tail.claims, 0) + 1,
     coalesce(v_tail.waiting, 0) + CASE WHEN v_fits THEN 0 ELSE 1 END,
     coalesce(v_tail.held, 0) + CASE WHEN v_fits THEN p_weight ELSE 0 END, p_payload,
     session_user, p_word, p_kind)
  ON CONFLICT (id) DO NOTHING;
  IF NOT FOUND THEN -- the id is in use on another name, so it is dead on this one
    RETURN p_now;
  END IF;
  IF v_tail.id IS NULL THEN
    RETURN concat_ws(' ', p_now, p_ticket, true, p_ttl, 0, 0, p_ticket);
  END IF;
  IF v_tail.claims = 1 AND NOT v_tail.waits AND NOT v_fits THEN -- the first waiter behind one holder
    RETURN concat_ws(' ', p_now, p_ticket, false, p_wait_ttl, 1, 0, v_tail.ticket,
      (SELECT c.expires FROM lockfast.claim c WHERE c.b = p_b ORDER BY c.expires LIMIT 1) - p_now,
      v_tail.id, v_tail.ticket, encode(v_tail.payload, 'hex'));
  END IF;
  RETURN p_now || ' ' || lockfast.standing_v2(p_name, p_id, p_now);
END
$$;

-- Append a claim, or find it by its id, and return the time and its standing.
--
-- p_late  its latest time, by this server's clock      p_base  added to the clock in new tickets
-- p_word  signs the notification of its grant
--
-- Returns one line of words: the time, and the standing. Ticket 0 means that the claim did not fit and was
-- not to wait. The time alone means that the id is dead. The time and one number mean that the queue is of
-- that kind, and not of the kind of the claim.
CREATE OR REPLACE FUNCTION lockfast.claim_v2(
  p_name bytea, p_id text, p_kind integer, p_capacity integer, p_weight integer, p_ttl bigint,
  p_wait_ttl bigint, p_queue boolean, p_late bigint, p_base bigint, p_payload bytea, p_word text
) RETURNS text LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '2s' SET enable_seqscan = off
SET enable_bitmapscan = off SET enable_indexscan = on SET plan_cache_mode = force_generic_plan
SET jit = off AS $$
DECLARE
  v_b      integer := lockfast.bucket_v1(p_name);
  v_line   text := lockfast.line_v1();
  v_now    bigint;
  v_ticket bigint;
BEGIN
  IF lockfast.ready_v2() IS NOT TRUE THEN
    PERFORM lockfast.enter_v1();
  END IF;
  IF lockfast.valid_v2(p_name, p_id, p_kind, p_capacity, p_weight, p_ttl, p_wait_ttl, p_queue, p_late, p_base,
    p_payload, p_word) IS NOT TRUE THEN
    PERFORM lockfast.refuse_v2(
      p_name, p_id, p_kind, p_capacity, p_weight, p_ttl, p_wait_ttl, p_base, p_payload);
  END IF;
  -- Lock the bucket and mint the ticket in one statement. On a new timeline, a replica was promoted that may
  -- have missed tickets, and whose clock may be behind. An hour is more than either. Each promotion adds an
  -- hour, because the replica may have missed that the server before it had already added one to the same
  -- ticket.
  UPDATE lockfast.bucket k
  SET seen = greatest(k.seen, lockfast.micros_v1()),
      last = greatest(k.last + 1, lockfast.micros_v1() + p_base)
             + 3600000000 * lockfast.promotions_v1(k.line, v_line),
      line = CASE WHEN v_line = '' THEN k.line ELSE v_line END
  WHERE k.b = v_b RETURNING k.seen, k.last INTO v_now, v_ticket;
  -- The UPDATE may have read the clock before it waited for the lock, or the clock went back.
  IF lockfast.micros_v1() - v_now BETWEEN 0 AND 1000 AND v_now <= p_late AND v_ticket < 9007199254740992 THEN
    INSERT INTO lockfast.claim
      (id, b, name, ticket, waits, capacity, weight, ttl, wait_ttl, expires,
       place, claims, waiting, held, payload, owner, word, kind)
    SELECT p_id, v_b, p_name, v_ticket, false, p_capacity, p_weight, p_ttl, p_wait_ttl, v_now + p_ttl,
      1, 1, 0, p_weight, p_payload, session_user, p_word, p_kind
    WHERE NOT EXISTS (SELECT FROM lockfast.claim c WHERE c.name = p_name)
      AND NOT EXISTS (SELECT FROM lockfast.claim c WHERE c.b = v_b AND c.expires <= v_now)
      AND NOT EXISTS (SELECT FROM lockfast.tombstone t WHERE t.b = v_b)
    ON CONFLICT (id) DO NOTHING;
    IF FOUND THEN
      RETURN concat_ws(' ', v_now, v_ticket, true, p_ttl, 0, 0, v_ticket);
    END IF;
  ELSIF v_now IS NULL THEN
    RAISE EXCEPTION 'lockfast.bucket has lost its row %', v_b USING ERRCODE = 'undefined_table';
  ELSIF lockfast.micros_v1() - v_now NOT BETWEEN 0 AND 1000 THEN
    v_now := lockfast.clock_v1(v_b, v_now);
  END IF;
  RETURN lockfast.append_v2(v_b, v_now, v_ticket, p_name, p_id, p_kind, p_capacity, p_weight, p_ttl,
    p_wait_ttl, p_queue, p_late, p_payload, p_word);
END
$$;

-- Append several claims, and return for each, in the order of the arrays, the line that claim_v2 returns for one.
-- It has the same name, because grant_v2 and `install` of the version before grant and revoke rights by name. A
-- caller casts one of the arrays, so that PostgreSQL knows which of the two is meant.
CREATE OR REPLACE FUNCTION lockfast.claim_v2(
  p_names bytea[], p_ids text[], p_kinds integer[], p_capacities integer[], p_weights integer[],
  p_ttls bigint[], p_wait_ttls bigint[], p_queues boolean[], p_lates bigint[], p_base bigint,
  p_payloads bytea[], p_words text[]
) RETURNS text LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '2s' SET enable_seqscan = off
SET enable_bitmapscan = off SET enable_indexscan = on SET plan_cache_mode = force_generic_plan
SET jit = off AS $$
DECLARE
  v_line  text := lockfast.line_v1();
  v_bs    integer[];
  v_valid boolean;
  v_now   bigint;
  v_lines text[];
  v_ask   record;
BEGIN
  IF lockfast.ready_v2() IS NOT TRUE THEN
    PERFORM lockfast.enter_v1();
  END IF;
  SELECT array_agg(lockfast.bucket_v1(a.name)), bool_and(coalesce(lockfast.valid_v2(a.name, a.id, a.kind,
    a.capacity, a.weight, a.ttl, a.wait_ttl, a.queue, a.late, p_base, a.payload, a.word), false))
  INTO v_bs, v_valid
  FROM unnest(p_names, p_ids, p_kinds, p_capacities, p_weights, p_ttls, p_wait_ttls, p_queues, p_lates,
    p_payloads, p_words) a(name, id, kind, capacity, weight, ttl, wait_ttl, queue, late, payload, word);
  IF NOT v_valid THEN
    PERFORM lockfast.refuse_v2(
      a.name, a.id, a.kind, a.capacity, a.weight, a.ttl, a.wait_ttl, p_base, a.payload)
    FROM unnest(p_names, p_ids, p_kinds, p_capacities, p_weights, p_ttls, p_wait_ttls, p_queues, p_lates,
      p_payloads, p_words) a(name, id, kind, capacity, weight, ttl, wait_ttl, queue, late, payload, word)
    WHERE lockfast.valid_v2(a.name, a.id, a.kind, a.capacity, a.weight, a.ttl, a.wait_ttl, a.queue, a.late,
      p_base, a.payload, a.word) IS NOT TRUE;
  END IF;
  v_now := lockfast.lock_all_v2(v_bs);
  -- Mint all tickets, as claim_v2 does, and append each claim that is the first one of a free name. Claims of
  -- one bucket get their tickets in the order of the arrays. The line of a claim that was not appended is NULL.
  FOR v_ask IN
    WITH asked AS MATERIALIZED (
      SELECT a.*, row_number() OVER (PARTITION BY a.b ORDER BY a.place) AS nth,
             row_number() OVER (PARTITION BY a.b, a.name ORDER BY a.place) AS nth_of_name
      FROM unnest(v_bs, p_names, p_ids, p_kinds, p_capacities, p_weights, p_ttls, p_wait_ttls, p_queues, p_lates,
        p_payloads, p_words) WITH ORDINALITY
        a(b, name, id, kind, capacity, weight, ttl, wait_ttl, queue, late, payload, word, place)
    ), minted AS (
      UPDATE lockfast.bucket k
      SET seen = v_now,
          last = greatest(k.last + 1, v_now + p_base)
                 + 3600000000 * lockfast.promotions_v1(k.line, v_line) + n.claims - 1,
          line = CASE WHEN v_line = '' THEN k.line ELSE v_line END
      FROM (SELECT a.b, count(*) AS claims FROM asked a GROUP BY a.b) n
      WHERE k.b = n.b RETURNING k.b, k.last - n.claims AS before
    ), numbered AS MATERIALIZED (
      SELECT a.*, m.before + a.nth AS ticket FROM asked a JOIN minted m ON m.b = a.b
    ), appended AS (
      INSERT INTO lockfast.claim
        (id, b, name, ticket, waits, capacity, weight, ttl, wait_ttl, expires,
         place, claims, waiting, held, payload, owner, word, kind)
      SELECT a.id, a.b, a.name, a.ticket, false, a.capacity, a.weight, a.ttl, a.wait_ttl, v_now + a.ttl,
        1, 1, 0, a.weight, a.payload, session_user, a.word, a.kind
      FROM numbered a
      -- A LIMIT keeps the planner from making joins of these, which might read the whole table.
      WHERE a.nth_of_name = 1 AND v_now <= a.late AND a.ticket < 9007199254740992
        AND (SELECT true FROM lockfast.claim c WHERE c.name = a.name LIMIT 1) IS NULL
        AND (SELECT true FROM lockfast.claim c WHERE c.b = a.b AND c.expires <= v_now LIMIT 1) IS NULL
        AND (SELECT true FROM lockfast.tombstone t WHERE t.b = a.b LIMIT 1) IS NULL
      ON CONFLICT (id) DO NOTHING
      RETURNING id, b, ticket
    )
    SELECT a.*, CASE WHEN c.id IS NOT NULL THEN
      concat_ws(' ', v_now, a.ticket, true, a.ttl, 0, 0, a.ticket) END AS line
    FROM numbered a LEFT JOIN appended c ON c.id = a.id AND c.b = a.b AND c.ticket = a.ticket
    ORDER BY a.place
  LOOP
    v_lines[v_ask.place] := coalesce(v_ask.line, lockfast.append_v2(v_ask.b, v_now, v_ask.ticket, v_ask.name,
      v_ask.id, v_ask.kind, v_ask.capacity, v_ask.weight, v_ask.ttl, v_ask.wait_ttl, v_ask.queue, v_ask.late,
      v_ask.payload, v_ask.word));
  END LOOP;
  RETURN array_to_string(v_lines, chr(10));
END
$$;

-- Extend claims to their full ttl or wait_ttl from now, never shorten them, and return their standings.
--
-- Returns one line per claim: its place in the arrays, the time, and the standing unless the claim is gone. A
-- claim of another format is not extended.
-- Buckets are locked in the order of their numbers, so that two batches cannot deadlock.
CREATE OR REPLACE FUNCTION lockfast.renew_v2(p_names bytea[], p_ids text[]) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '2s' SET enable_seqscan = off
SET enable_bitmapscan = off SET enable_indexscan = on SET plan_cache_mode = force_generic_plan
SET jit = off AS $$
DECLARE
  v_bs    integer[] := ARRAY(SELECT lockfast.bucket_v1(a.name) FROM unnest(p_names) a(name));
  v_now   bigint;
  v_lines text[];
  v_done  bigint[];
  v_ask   record;
  v_b     integer;
BEGIN
  IF lockfast.ready_v2() IS NOT TRUE THEN
    PERFORM lockfast.enter_v1();
  END IF;
  v_now := lockfast.lock_all_v2(v_bs);
  UPDATE lockfast.bucket k SET seen = v_now WHERE k.b = ANY (v_bs);
  -- Extend all claims that hold alone. Not "=" for the name: the planner might use it to find the row, and
  -- the id alone must do that.
  WITH kept AS (
    UPDATE lockfast.claim c SET expires = greatest(c.expires, v_now + c.ttl)
    WHERE c.id = ANY (p_ids) AND c.name IS NOT DISTINCT FROM p_names[array_position(p_ids, c.id)]
      AND c.kind BETWEEN 1 AND 3 AND c.expires > v_now AND NOT c.waits
      AND (SELECT true FROM lockfast.claim o WHERE o.name = c.name AND o.id <> c.id LIMIT 1) IS NULL
    RETURNING array_position(p_ids, c.id) AS place, c.ticket, c.expires
  )
  SELECT array_agg(k.place),
    array_agg(concat_ws(' ', k.place, v_now, k.ticket, true, k.expires - v_now, 0, 0, k.ticket))
  INTO v_done, v_lines FROM kept k;
  IF cardinality(v_done) = cardinality(p_ids) THEN
    RETURN array_to_string(v_lines, chr(10));
  END IF;
  FOR v_ask IN
    SELECT a.b, a.name, a.id, a.place
    FROM unnest(v_bs, p_names, p_ids) WITH ORDINALITY a(b, name, id, place)
    WHERE a.place = ANY (v_done) IS NOT TRUE ORDER BY a.b, a.place
  LOOP
    IF v_b IS DISTINCT FROM v_ask.b THEN
      v_b := v_ask.b;
      PERFORM lockfast.sweep_v2(v_b, v_now);
    END IF;
    UPDATE lockfast.claim c
    SET expires = greatest(c.expires, v_now + CASE WHEN c.waits THEN c.wait_ttl ELSE c.ttl END)
    WHERE c.id = v_ask.id AND c.name IS NOT DISTINCT FROM v_ask.name AND c.kind BETWEEN 1 AND 3;
    v_lines := v_lines
      || concat_ws(' ', v_ask.place, v_now, lockfast.standing_v2(v_ask.name, v_ask.id, v_now));
  END LOOP;
  RETURN array_to_string(v_lines, chr(10));
END
$$;

-- Remove claims for good, and return the notes that notify the waiters which this lets in.
--
-- p_untils  for each claim NULL or, if a copy may still be under way, the time until which its tombstone
--           must stay, by this server's clock. The tombstone stays for at least 11 seconds, for at most a
--           day, and is never shortened. No copy may be applied later than 10 seconds, the longest wait,
--           after it was sent. A client that breaks another's claim knows neither when that was, nor the
--           clock at that time
--
-- Returns whether each claim was there, as letters t and f in the order of the arrays, and then the notes,
-- one per line. Raises an error for a claim that may_v1 does not let the role that logged in end. A claim of
-- another format stays, and counts as not there.
CREATE OR REPLACE FUNCTION lockfast.resign_v2(p_names bytea[], p_ids text[], p_untils bigint[])
RETURNS text LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '2s' SET enable_seqscan = off
SET enable_bitmapscan = off SET enable_indexscan = on SET plan_cache_mode = force_generic_plan
SET jit = off AS $$
DECLARE
  v_bs      integer[];
  v_now     bigint;
  v_seen    bigint;
  v_done    bigint[];
  v_ask     record;
  v_b       integer;
  v_gone    lockfast.claim;
  v_removed boolean[];
  v_notes   text[];
BEGIN
  IF lockfast.ready_v2() IS NOT TRUE THEN
    PERFORM lockfast.enter_v1();
  END IF;
  -- Remove claims that are alone in their queues. `seen` stays as it is, because no expiry moves.
  IF cardinality(p_ids) = 1 THEN
    v_b := lockfast.bucket_v1(p_names[1]);
    SELECT k.seen INTO v_seen FROM lockfast.bucket k WHERE k.b = v_b FOR NO KEY UPDATE;
    v_now := lockfast.micros_v1();
    -- Not "=" for the name: the planner might use it to find the row, and the id alone must do that.
    DELETE FROM lockfast.claim c
    WHERE c.id = p_ids[1] AND c.name IS NOT DISTINCT FROM p_names[1] AND p_untils[1] IS NULL
      AND c.kind BETWEEN 1 AND 3 AND c.expires > v_now AND c.owner = session_user AND v_seen IS NOT NULL
      AND NOT EXISTS (SELECT FROM lockfast.claim o WHERE o.name = p_names[1] AND o.id <> p_ids[1]);
    IF FOUND THEN
      RETURN 't';
    END IF;
    v_bs := ARRAY[v_b];
    IF v_seen <= v_now IS NOT TRUE THEN -- the clock went back, or the bucket is lost
      v_now := lockfast.lock_all_v2(v_bs);
    END IF;
    v_b := NULL;
  ELSE
    v_bs := ARRAY(SELECT lockfast.bucket_v1(a.name) FROM unnest(p_names) a(name));
    v_now := lockfast.lock_all_v2(v_bs);
    WITH gone AS (
      DELETE FROM lockfast.claim c
      WHERE c.id = ANY (p_ids) AND c.name IS NOT DISTINCT FROM p_names[array_position(p_ids, c.id)]
        AND p_untils[array_position(p_ids, c.id)] IS NULL
        AND c.kind BETWEEN 1 AND 3 AND c.expires > v_now AND c.owner = session_user
        AND (SELECT true FROM lockfast.claim o WHERE o.name = c.name AND o.id <> c.id LIMIT 1) IS NULL
      RETURNING array_position(p_ids, c.id) AS place
    )
    SELECT array_agg(g.place) INTO v_done FROM gone g;
    IF cardinality(v_done) = cardinality(p_ids) THEN
      RETURN repeat('t', cardinality(p_ids));
    END IF;
  END IF;
  FOR v_ask IN
    SELECT a.b, a.name, a.id, a.until, a.place, a.place = ANY (v_done) IS TRUE AS done
    FROM unnest(v_bs, p_names, p_ids, p_untils) WITH ORDINALITY a(b, name, id, until, place)
    ORDER BY a.b, a.place
  LOOP
    IF v_ask.done THEN
      v_removed[v_ask.place] := true;
      CONTINUE;
    END IF;
    IF v_b IS DISTINCT FROM v_ask.b THEN
      v_b := v_ask.b;
      PERFORM lockfast.sweep_v2(v_b, v_now);
    END IF;
    IF v_ask.until IS NOT NULL THEN
      INSERT INTO lockfast.tombstone AS t (id, b, until, owner)
      VALUES (v_ask.id, v_b, greatest(least(v_ask.until, v_now + 86400000000), v_now + 11000000),
              session_user)
      ON CONFLICT (id, owner) DO UPDATE SET until = greatest(t.until, excluded.until);
    END IF;
    DELETE FROM lockfast.claim c
    WHERE c.id = v_ask.id AND c.name IS NOT DISTINCT FROM v_ask.name AND c.kind BETWEEN 1 AND 3
    RETURNING * INTO v_gone;
    v_removed[v_ask.place] := FOUND;
    IF FOUND AND v_gone.owner <> session_user THEN
      PERFORM lockfast.permit_v1(v_ask.id, v_gone.owner);
    END IF;
    IF v_removed[v_ask.place] AND v_gone.waits THEN
      v_notes := v_notes || lockfast.leave_v2(v_ask.name, 1, 1, 0, v_gone);
    ELSIF v_removed[v_ask.place] THEN
      v_notes := v_notes || lockfast.leave_v2(v_ask.name, 1, 0, v_gone.weight, v_gone);
    END IF;
  END LOOP;
  RETURN concat_ws(chr(10), translate(v_removed::text, '{},', ''), array_to_string(v_notes, chr(10)));
END
$$;

-- Store to which connection of the service claims belong, unless they belong to a later one. A client has such
-- claims only if it asks for their end with its connection.
--
-- p_lives  for how many µs to remember that
--
-- Returns whether each claim belongs to this connection now, as letters t and f in the order of the arrays.
CREATE OR REPLACE FUNCTION lockfast.attach_v2(p_ids text[], p_epochs bigint[], p_lives bigint[])
RETURNS text LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '2s' SET enable_seqscan = off
SET enable_bitmapscan = off SET enable_indexscan = on SET plan_cache_mode = force_generic_plan
SET jit = off AS $$
DECLARE
  v_now bigint := lockfast.micros_v1();
  v_ask record;
  v_all boolean[];
BEGIN
  PERFORM lockfast.enter_v1();
  -- In the order of ids, because each row stays locked until the commit.
  FOR v_ask IN
    SELECT a.id, a.epoch, a.life, a.place
    FROM unnest(p_ids, p_epochs, p_lives) WITH ORDINALITY a(id, epoch, life, place) ORDER BY a.id, a.place
  LOOP
    IF v_ask.id !~ '^[0-9A-Za-z]{32}$' IS NOT FALSE OR v_ask.epoch < 1 IS NOT FALSE THEN
      RAISE EXCEPTION 'not a connection' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    INSERT INTO lockfast.attached AS t (id, owner, epoch, until)
    VALUES (v_ask.id, session_user, v_ask.epoch, v_now + least(greatest(v_ask.life, 0), 172800000000))
    ON CONFLICT (id, owner) DO UPDATE SET epoch = excluded.epoch, until = excluded.until
    WHERE t.epoch <= excluded.epoch OR t.until <= v_now;
    v_all[v_ask.place] := FOUND;
  END LOOP;
  DELETE FROM lockfast.attached t WHERE (t.id, t.owner) IN (
    SELECT o.id, o.owner FROM lockfast.attached o WHERE o.until <= v_now
    ORDER BY o.until LIMIT 64 FOR UPDATE SKIP LOCKED
  );
  RETURN translate(v_all::text, '{},', '');
END
$$;

-- Remove those of the claims that belong to these connections, as resign_v2 does. No other connection can take
-- them meanwhile, because their rows in `attached` are locked until the commit.
--
-- Returns whether each claim was removed, and the notes, as resign_v2 does.
CREATE OR REPLACE FUNCTION lockfast.depart_v2(
  p_names bytea[], p_ids text[], p_untils bigint[], p_epochs bigint[]
) RETURNS text LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '2s' SET enable_seqscan = off
SET enable_bitmapscan = off SET enable_indexscan = on SET plan_cache_mode = force_generic_plan
SET jit = off AS $$
DECLARE
  v_now    bigint := lockfast.micros_v1();
  v_ask    record;
  v_places integer[] := '{}';
  v_found  text;
  v_all    boolean[] := array_fill(false, ARRAY[cardinality(p_ids)]);
BEGIN
  FOR v_ask IN
    SELECT t.id, t.epoch, t.until FROM lockfast.attached t
    WHERE t.id = ANY (p_ids) AND t.owner = session_user ORDER BY t.id FOR UPDATE
  LOOP
    IF v_ask.until > v_now AND v_ask.epoch = p_epochs[array_position(p_ids, v_ask.id)] THEN
      v_places := v_places || array_position(p_ids, v_ask.id);
    END IF;
  END LOOP;
  IF cardinality(v_places) > 0 THEN
    SELECT lockfast.resign_v2(array_agg(p_names[p] ORDER BY n), array_agg(p_ids[p] ORDER BY n),
                              array_agg(p_untils[p] ORDER BY n))
    INTO v_found FROM unnest(v_places) WITH ORDINALITY a(p, n);
    FOR n IN 1 .. cardinality(v_places) LOOP
      v_all[v_places[n]] := substr(v_found, n, 1) = 't';
    END LOOP;
  END IF;
  RETURN translate(v_all::text, '{},', '') || coalesce(substr(v_found, cardinality(v_places) + 1), '');
END
$$;

-- Keep the record of a break: the newest 16 of a name, for a day. Records are only for people to read. Every
-- lock user can write one about a claim that no longer exists. The first record of a claim counts.
CREATE OR REPLACE FUNCTION lockfast.record_v2(p_name bytea, p_id text, p_record bytea) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '2s' SET enable_seqscan = off
SET enable_bitmapscan = off SET enable_indexscan = on SET plan_cache_mode = force_generic_plan
SET jit = off AS $$
DECLARE
  v_now   bigint := lockfast.micros_v1();
  v_owner name;
BEGIN
  PERFORM lockfast.enter_v1();
  IF p_record IS NULL OR length(p_record) > 4096 OR p_name IS NULL OR length(p_name) > 512
    OR p_id IS NULL OR p_id !~ '^[0-9A-Za-z]{1,64}$' THEN
    RAISE EXCEPTION 'not a record' USING ERRCODE = 'invalid_parameter_value';
  END IF;
  SELECT c.owner INTO v_owner FROM lockfast.claim c WHERE c.id = p_id;
  IF FOUND AND v_owner <> session_user THEN
    PERFORM lockfast.permit_v1(p_id, v_owner);
  END IF;
  DELETE FROM lockfast.broken k WHERE k.at < v_now - 86400000000;
  INSERT INTO lockfast.broken (id, name, at, record) VALUES (p_id, p_name, v_now, p_record)
  ON CONFLICT (id) DO NOTHING;
  DELETE FROM lockfast.broken k WHERE k.name = p_name AND k.at <= (
    SELECT o.at FROM lockfast.broken o WHERE o.name = p_name ORDER BY o.at DESC OFFSET 16 LIMIT 1
  );
END
$$;

-- Return the records of a name in hexadecimal digits, the newest first.
CREATE OR REPLACE FUNCTION lockfast.records_v2(p_name bytea) RETURNS SETOF text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '2s' SET enable_seqscan = off
SET enable_bitmapscan = off SET enable_indexscan = on SET plan_cache_mode = force_generic_plan
SET jit = off AS $$
BEGIN
  RETURN QUERY
    SELECT encode(k.record, 'hex') FROM lockfast.broken k
    WHERE k.name = p_name AND k.at > lockfast.micros_v1() - 86400000000 ORDER BY k.at DESC LIMIT 16;
END
$$;

-- Return the claims on one name. If `p_below` is given, return those on the names from `p_name` to below
-- it, and only those behind (p_waits, p_ticket), if these are given too. Names and payloads are in
-- hexadecimal digits. The client must check the kind before it reads anything else of a row.
CREATE OR REPLACE FUNCTION lockfast.show_v2(
  p_name bytea, p_below bytea, p_waits boolean, p_ticket bigint, p_most integer
) RETURNS TABLE (
  o_name text, o_id text, o_ticket bigint, o_granted boolean, o_kind smallint, o_weight integer,
  o_capacity integer, o_left bigint, o_payload text
) LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '2s' SET enable_seqscan = off
SET enable_bitmapscan = off SET enable_indexscan = on SET plan_cache_mode = force_generic_plan
SET jit = off AS $$
DECLARE
  v_now bigint := lockfast.micros_v1();
BEGIN
  IF p_below IS NULL THEN
    RETURN QUERY
      SELECT encode(c.name, 'hex'), c.id, c.ticket, NOT c.waits, c.kind, c.weight, c.capacity,
             c.expires - v_now, encode(c.payload, 'hex')
      FROM lockfast.claim c WHERE c.name = p_name AND c.expires > v_now
      ORDER BY c.waits, c.ticket LIMIT least(p_most, 1000);
  ELSE
    RETURN QUERY
      SELECT encode(c.name, 'hex'), c.id, c.ticket, NOT c.waits, c.kind, c.weight, c.capacity,
             c.expires - v_now, encode(c.payload, 'hex')
      FROM lockfast.claim c
      WHERE (c.name, c.waits, c.ticket) > (p_name, coalesce(p_waits, false), coalesce(p_ticket, -1))
        AND c.name < p_below AND c.expires > v_now
      ORDER BY c.name, c.waits, c.ticket LIMIT least(p_most, 1000);
  END IF;
END
$$;

-- Grant a role the right to take and release locks, and nothing else. Revoke its rights to the tables, except
-- the right to read them.
CREATE OR REPLACE FUNCTION lockfast.grant_v2(p_role text) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_role text := CASE WHEN p_role = 'public' THEN 'PUBLIC' ELSE quote_ident(p_role) END;
  v_call text;
BEGIN
  EXECUTE format('GRANT USAGE ON SCHEMA lockfast TO %s', v_role);
  EXECUTE format(
    'REVOKE INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER ON lockfast.bucket, lockfast.claim, '
    'lockfast.tombstone, lockfast.broken, lockfast.attached FROM %s', v_role);
  FOR v_call IN
    SELECT p.oid::regprocedure::text FROM pg_proc p
    WHERE p.pronamespace = 'lockfast'::regnamespace
      AND p.proname ~ '^(claims?|renew|resign|show|records?|attach|depart)_v[12]$'
  LOOP
    EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %s', v_call, v_role);
  END LOOP;
END
$$;

-- The functions of format 0, of which clients before lockfast 0.1 call these. They now only raise an error.
-- They keep the rights that were granted, because without the right a client would get another error. Those
-- that exist keep their result types and the names of their arguments, because only then can they be replaced.
DO $$
DECLARE
  v_old  record;
  v_proc regprocedure;
BEGIN
  FOR v_old IN
    SELECT * FROM (
      VALUES
        ('claim_v1', 'bytea, text, integer, integer, bigint, bigint, boolean, bigint, bigint, bytea', 'text'),
        ('claim_v1', 'bytea, text, integer, integer, bigint, bigint, boolean, bigint, bigint, bytea, text',
         'text'),
        ('renew_v1', 'bytea[], text[]', 'text'),
        ('resign_v1', 'bytea[], text[], bigint[]', 'text'),
        ('show_v1', 'bytea, bytea, boolean, bigint, integer', 'SETOF text'),
        ('record_v1', 'bytea, text, bytea', 'void'),
        ('records_v1', 'bytea', 'SETOF text')
    ) o(name, arguments, result)
  LOOP
    v_proc := to_regprocedure(format('lockfast.%s(%s)', v_old.name, v_old.arguments));
    EXECUTE format(
      'CREATE OR REPLACE FUNCTION lockfast.%s(%s) RETURNS %s LANGUAGE plpgsql SECURITY DEFINER '
      'SET search_path = pg_catalog, pg_temp AS %L',
      v_old.name, coalesce(pg_get_function_arguments(v_proc), v_old.arguments),
      coalesce(pg_get_function_result(v_proc), v_old.result), $f$
BEGIN
  RAISE EXCEPTION 'this client uses format 0, the schema lockfast has format %: upgrade the client',
    lockfast.format_v1() USING ERRCODE = 'feature_not_supported';
END
$f$);
  END LOOP;
END
$$;

DROP FUNCTION IF EXISTS lockfast.grant_v1(text), lockfast.recount_v1(bytea), lockfast.sweep_v1(integer, bigint),
  lockfast.standing_v1(bytea, text, bigint), lockfast.leave_v1(bytea, bigint, bigint, bigint, lockfast.claim);

-- Revoke the rights that PostgreSQL gives everybody to a new function. In an earlier version, users wrote to
-- the tables: replace their old rights by the new ones. Also grant all users of an earlier version, and
-- PUBLIC if grant_v2 was called for it, the functions that were created anew above.
DO $$
DECLARE
  v_role  text;
  v_roles text[];
BEGIN
  v_roles := ARRAY(
    SELECT coalesce(r.rolname, 'public')
    FROM pg_class c, LATERAL aclexplode(c.relacl) a LEFT JOIN pg_roles r ON r.oid = a.grantee
    WHERE c.oid = 'lockfast.claim'::regclass AND a.grantee <> c.relowner
      AND a.privilege_type IN ('INSERT', 'DELETE')
    UNION
    SELECT coalesce(r.rolname, 'public')
    FROM pg_proc p, LATERAL aclexplode(p.proacl) a LEFT JOIN pg_roles r ON r.oid = a.grantee
    WHERE p.pronamespace = 'lockfast'::regnamespace AND a.grantee <> p.proowner
      AND (p.proname = 'renew_v2' OR p.proname = 'renew_v1' AND a.grantee <> 0)
  );
  REVOKE ALL ON ALL FUNCTIONS IN SCHEMA lockfast FROM PUBLIC;
  FOREACH v_role IN ARRAY v_roles LOOP
    PERFORM lockfast.grant_v2(v_role);
  END LOOP;
END
$$;

SELECT pg_catalog.set_config('search_path', pg_catalog.current_setting('lockfast.path', true), true);
