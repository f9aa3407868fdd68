-- The queue of a lock that has waiters or several holders. The other scripts include this file, after
-- stored.lua and rights.lua.
--
-- lock     'Q v1 kind granted held frontier newest seen kept':
--          kind      of all claims                    frontier  highest ticket of a granted claim
--          granted   weight of the granted claims     newest    highest ticket of any claim
--          held      number of granted claims         seen      time of the last change
--          kept      time until which Redis keeps the other two keys
-- order    one sorted set with two members per claim: id by its ticket, and '~id' by minus its
--          expiry in ms. So the expiries sort before the tickets, the latest first.
-- records  id -> 'ticket record' (see stored.lua)
--
-- A claim is granted if all claims ahead of it are, and if its weight plus theirs is at most its own
-- capacity. So the granted claims are exactly those up to the frontier, and every step costs O(log n). A
-- lock with a sole holder and no waiter is instead one string with its own expiry. This is the fast path.
--
-- A standing is {ticket, granted, left in ms, ahead, behind, floor, recheck in ms or -1}, and for a
-- waiter the head's id, ticket and payload.
--
-- No script may fail after its first write, because Redis does not undo what a script wrote before an
-- error. These commands could fail (docs/explanation/redis-scripts.md lists all):
--   PUBLISH               without rights to the channel: 'pcall' ignores the error, and the waiter finds
--                         its grant when it polls
--   ZADD ZREM HSET HDEL PEXPIREAT ZRANGE HGET  without rights to the command: rights.lua checks before the
--                         first write
--   SET DEL PEXPIRE       every user that can claim at all has the rights, and SET overwrites any type
--   ZCARD HLEN            on keys of a wrong type: they are the first commands on their keys, and only
--                         read. 'open' writes nothing, and callers write to a queue only after it
--   HGET                  a record may be missing or unreadable: 'find' returns no claim, and every caller
--                         handles that before it writes
--   ZADD PEXPIREAT SET    numbers that they refuse: 'claim_of' and 'open' accept none from 2^53 on, and
--                         'save' limits the expiry that a score asks for
--   ZSCORE ZRANK          members that another program has removed: 'standing' computes without them
--   OOM READONLY MISCONF NOREPLICAS  Redis raises them at a script's first write only

local LOCK = '1' -- the kind whose claims all have a capacity of one

-- Return a claim and its value in the records. The claim is false or nil if that is missing or unreadable.
local function find(q, id)
  local stored = redis.call('HGET', q.records, id)
  return stored and string.find(id, '^%x+$') and claim_of(id, stored), stored
end

local function append(q, claim, expires)
  redis.call('HSET', q.records, claim.id, claim.stored)
  redis.call('ZADD', q.order, claim.digits, claim.id, digits(-expires), '~' .. claim.id)
  q.members = q.members + 1
  q.newest, q.newest_digits = claim.ticket, claim.digits
  q.changed = true
end

local function remove(q, claim)
  redis.call('ZREM', q.order, claim.id, '~' .. claim.id)
  redis.call('HDEL', q.records, claim.id)
  q.members = q.members - 1
  if claim.ticket <= q.frontier then
    q.granted = q.granted - claim.weight
    q.held = q.held - 1
  end
  q.changed = true
end

local function life(q, claim)
  return claim.ticket <= q.frontier and claim.ttl or claim.wait
end

-- Set a claim's expiry to its full life from now. The time that it had left is not added.
local function touch(q, claim, now)
  redis.call('ZADD', q.order, digits(-(now + life(q, claim))), '~' .. claim.id)
  q.changed = true
end

-- Stands for a claim whose record cannot be read. Its expiry is never changed, so it ends at that time.
local UNREADABLE = {ticket = 0, ttl = math.huge, wait = math.huge}

-- Return the claim of a member '~id' of the order, or UNREADABLE. A member with a negative score but
-- without '~' comes from another program. A record of another format is an error: its queue must not be
-- dropped.
local function expiring(q, member)
  if string.sub(member, 1, 1) ~= '~' then
    return UNREADABLE
  end
  local id = string.sub(member, 2)
  local claim, stored = find(q, id)
  local other = not claim and stored and other_format(id .. ' ' .. stored)
  if other then
    error(other, 0)
  end
  return claim or UNREADABLE
end

-- Read a queue and find its expired claims. If the clock went back, also find the claims that expire too
-- late. This writes nothing, so keys of a wrong type, an unreadable state and missing rights end a script
-- here and do no harm.
local function open(lock, order, records, raw, now)
  local q = {lock = lock, order = order, records = records, expired = {}, distant = {}}
  local kind, granted, held, frontier, newest, seen, kept = string.match(raw, STATE)
  if not kept or math.max(granted, held, frontier, newest, seen, kept) >= TOP then
    error(other_format(raw) or 'LOCKFAST the state of the queue is not one of ours', 0)
  end
  q.kind, q.granted, q.held = kind, tonumber(granted), tonumber(held)
  q.frontier, q.newest, q.kept = tonumber(frontier), tonumber(newest), tonumber(kept)
  q.frontier_digits, q.newest_digits = frontier, newest
  q.members = redis.call('ZCARD', order) / 2
  if q.members ~= redis.call('HLEN', records) then
    q.members = 0 -- a part was evicted, or deleted by hand: no claim can be found in the rest
    return q
  end
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', order, digits(-now), '(0')) do
    local claim = expiring(q, member)
    if claim == UNREADABLE then
      q.members, q.expired = 0, {} -- its weight is unknown, so the sums cannot be corrected
      return q
    end
    q.expired[#q.expired + 1] = claim
  end
  if now < tonumber(seen) then
    for _, member in ipairs(redis.call('ZRANGEBYSCORE', order, '-inf', '(' .. digits(-now))) do
      local claim = expiring(q, member)
      if -redis.call('ZSCORE', order, member) > now + life(q, claim) then
        q.distant[#q.distant + 1] = claim
      end
    end
    q.changed = true
  end
  permit_reads(order, records, false)
  if q.changed or #q.expired > 0 then
    permit(order, records, true, true)
  end
  return q
end

-- Delete the expired claims, and shorten those that expire too late to their full life from now.
local function prune(q, now)
  for _, claim in ipairs(q.expired) do
    remove(q, claim)
  end
  for _, claim in ipairs(q.distant) do
    touch(q, claim, now)
  end
end

local function first(q)
  if not q.head then
    local place = digits(q.members) -- behind as many expiries
    q.head = find(q, redis.call('ZRANGE', q.order, place, place)[1])
      or {id = '', digits = '0', ticket = 0, stored = '', rest = 1} -- unreadable: the reply must not fail
  end
  return q.head
end

-- Count a claim as granted, if it fits its own capacity. All claims ahead of it must be granted.
local function grant(q, claim)
  if q.granted + claim.weight > claim.capacity then
    return false
  end
  if q.held == 0 then
    q.head = claim
  end
  q.granted = q.granted + claim.weight
  q.held = q.held + 1
  q.frontier, q.frontier_digits = claim.ticket, claim.digits
  return true
end

-- Grant the next waiters while each fits its own capacity, and publish a message to each. 'mine' is the id
-- of the caller's claim. It gets no message, because the reply tells its standing.
local function advance(q, mine)
  while q.held < q.members and not (q.kind == LOCK and q.held > 0) do
    local id = redis.call('ZRANGEBYSCORE', q.order, '(' .. digits(q.frontier), '+inf', 'LIMIT', '0', '1')[1]
    local claim = id and find(q, id) -- no id: a record has another ticket than the order
    if not claim or not grant(q, claim) then
      break -- an unreadable claim blocks the queue until it expires, because its weight is unknown
    end
    if id ~= mine then
      redis.pcall('PUBLISH', 'lockfast:' .. string.sub(id, 1, 22), id .. ' ' .. first(q).digits)
    end
  end
end

local function drop(q)
  redis.call('DEL', q.lock, q.order, q.records)
end

-- Write the state back. The lock's key expires with the last claim, and the other keys some time later.
local function save(q, now)
  if q.members == 0 then
    return drop(q)
  elseif not q.changed then
    return
  end
  -- Limit the expiry to what a claim can ask for. A score that another program wrote could ask for a time
  -- before 1970, which SET refuses, or for infinity, which PEXPIREAT refuses.
  local latest = -redis.call('ZRANGE', q.order, '0', '0', 'WITHSCORES')[2]
  latest = math.min(math.max(latest, now + 1), now + LONGEST)
  if latest >= q.kept then
    q.kept = latest + 10000
    redis.call('PEXPIREAT', q.order, digits(q.kept))
    redis.call('PEXPIREAT', q.records, digits(q.kept))
  end
  local state = state_of(q.kind, digits(q.granted), digits(q.held), q.frontier_digits, q.newest_digits,
    digits(now), digits(q.kept))
  redis.call('SET', q.lock, state, 'PXAT', digits(latest))
end

-- Return the standing of a claim. 'added': this script has just added it.
local function standing(q, id, now, claim, added)
  local left, ahead = life(q, claim), q.members - 1
  if not added then
    -- Another program may have removed a member, or changed its score. Every number must stay within the
    -- bounds that a client accepts, because one that is out of bounds makes it distrust all of the server's
    -- replies.
    left = math.max(math.min(-(redis.call('ZSCORE', q.order, '~' .. id) or 0) - now, left), 0)
    ahead = math.max((redis.call('ZRANK', q.order, id) or 0) - q.members, 0)
  end
  local head = first(q)
  if claim.ticket <= q.frontier then
    return {claim.digits, 1, left, ahead, math.max(q.members - q.held, 0), head.digits, -1}
  end
  local recheck = -1
  if ahead == q.held then
    local soonest = redis.call('ZREVRANGEBYSCORE', q.order, '(0', '-inf', 'WITHSCORES', 'LIMIT', '0', '1')[2]
    recheck = math.min(-(soonest or 0) - now, LONGEST)
  end
  return {claim.digits, 0, left, ahead, math.max(q.members - ahead - 1, 0), head.digits, recheck, head.id,
          head.digits, string.sub(head.stored, head.rest)}
end
