-- The tables of lockfast in a SQLite database. Times are in microseconds of the host's boot clock.
--
-- host       one row: the time of the last claim or renewal, and the highest ticket.
-- queue      one row for each name that has claims, with the totals of its queue, so that no query has to
--            count a long queue. All claims of a name are of one kind and of one format.
-- claim      the live claims. Granted claims are ahead of waiting ones, so the queue of a name is its
--            claims in the order of (waits, ticket).
-- tombstone  ids that are refused until every copy of their claim is too late anyway.
-- broken     records of claims that were broken. `at` is in microseconds of the wall clock.
--
-- Expired claims are deleted, by the transaction that finds them. If queries only filtered them out, a lock
-- could be granted twice when the clock goes back.
--
-- Formats: queue.format is the format of a name's claims. A version of lockfast neither renews, grants nor
-- resigns claims of another format, and deletes them when they have expired. So the columns id, name, ticket
-- and expires mean the same in every format. PRAGMA user_version is the number of this layout of tables.

CREATE TABLE host (
  n    INTEGER PRIMARY KEY CHECK (n = 1),
  seen INTEGER NOT NULL,
  last INTEGER NOT NULL
);
INSERT INTO host (n, seen, last) VALUES (1, 0, 0);

CREATE TABLE queue (
  name    BLOB PRIMARY KEY,
  format  INTEGER NOT NULL,
  kind    INTEGER NOT NULL,
  claims  INTEGER NOT NULL, -- how many there are
  waiting INTEGER NOT NULL, -- how many of them wait
  held    INTEGER NOT NULL, -- the weight of those that are granted
  placed  INTEGER NOT NULL  -- the place of the claim that was appended last
) WITHOUT ROWID;

CREATE TABLE claim (
  id       TEXT PRIMARY KEY,
  name     BLOB    NOT NULL, -- UTF-8
  ticket   INTEGER NOT NULL,
  waits    INTEGER NOT NULL, -- 0: it is granted
  capacity INTEGER NOT NULL,
  weight   INTEGER NOT NULL,
  ttl      INTEGER NOT NULL,
  wait_ttl INTEGER NOT NULL,
  expires  INTEGER NOT NULL,
  place    INTEGER NOT NULL, -- one more than the place of the claim before it
  woken    INTEGER,          -- the floor of a claim that was granted while it waited, until its renewal
  payload  BLOB    NOT NULL
) WITHOUT ROWID;
CREATE INDEX claim_queue ON claim (name, waits, ticket);
CREATE INDEX claim_expiry ON claim (name, expires);
CREATE INDEX claim_woken ON claim (id, woken) WHERE woken IS NOT NULL;

CREATE TABLE tombstone (
  id    TEXT PRIMARY KEY,
  until INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX tombstone_expiry ON tombstone (until);

CREATE TABLE broken (
  n      INTEGER PRIMARY KEY,
  id     TEXT    NOT NULL UNIQUE,
  name   BLOB    NOT NULL,
  at     INTEGER NOT NULL,
  record BLOB    NOT NULL
);
CREATE INDEX broken_name ON broken (name, n);
CREATE INDEX broken_at ON broken (at);
