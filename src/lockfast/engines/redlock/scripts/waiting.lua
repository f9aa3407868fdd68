-- The waiting room of one lock: the claims to notify when it is free. It is no queue, because a place in
-- it gives no right to the lock.
--
-- order    a sorted set with two members per waiter: id by its first token, and '~id' by minus its
--          expiry in ms. So the expiries sort before the tokens, the latest first.
-- records  id -> payload
-- Both keys expire by themselves, some time after the last waiter. The scripts build these keys and do not
-- declare them, because few calls need them. They may, because each node is a server of its own and not
-- part of a Cluster.
--
-- No script may fail after its first write, because Redis does not undo what a script wrote before an
-- error. The room gives no right, so an error in it (keys of a wrong type, a user without rights to ZADD,
-- ZREM, HSET, HDEL) must not end a script: callers use 'hint', which then returns nil. PUBLISH fails
-- without rights to the channel, and 'pcall' ignores that. The other commands of the scripts are GET, MGET,
-- SET, PSETEX, DEL, PEXPIRE, PTTL, SETRANGE and EXISTS. Those on the lock's key run after a read. If the key
-- is no string, the read fails first. A mark is read with MGET, which takes another type for a missing key.
-- Redis raises OOM, READONLY, MISCONF and NOREPLICAS at a script's first write only.
local function hint(work, ...)
  local fine, result = pcall(work, ...)
  return fine and result or nil
end

local function room(lock, mark)
  local name = string.sub(lock, #mark + 2)
  return mark .. '>' .. name, mark .. '#' .. name
end

local function now()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function digits(number)
  return string.format('%.0f', number) -- '..' would write 1.7e+15 (trap 53)
end

local function leave(order, records, id)
  redis.call('HDEL', records, id)
  return redis.call('ZREM', order, id, '~' .. id) > 0
end

local function stay(order, records, id, since, wait, payload)
  -- Set the expiry of each key before the next is written. If that fails, no key is left that never expires.
  redis.call('HSET', records, id, payload)
  redis.call('PEXPIRE', records, 11000)
  redis.call('ZADD', order, since, id, digits(-(now() + wait)), '~' .. id)
  redis.call('PEXPIRE', order, 11000)
end

local function prune(order, records)
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', order, digits(-now()), '(0')) do
    leave(order, records, string.sub(member, 2))
  end
end

-- Remove a claim that holds, since it may have waited here and won elsewhere. Return how many others wait.
local function behind(order, records, id)
  leave(order, records, id)
  prune(order, records)
  return redis.call('HLEN', records)
end

-- Reserve the lock for the longest waiter for 'moment' ms, and notify it. It is notified only once. If it
-- does not claim the lock in that time, any other claim may.
local function invite(lock, order, records, prefix, moment)
  prune(order, records)
  -- Below 2^53: a higher score, from another program, would make a value of the lock that no claim can read.
  local first = redis.call('ZRANGEBYSCORE', order, '(0', '(9007199254740992', 'WITHSCORES', 'LIMIT', 0, 1)
  local id = first[1]
  if id then
    local payload = redis.call('HGET', records, id) or ''
    local value = string.format('R%s %016.0f - v1 1 1 1 %s ', id, first[2], moment) .. payload
    redis.call('PSETEX', lock, moment, value)
    leave(order, records, id)
    redis.pcall('PUBLISH', prefix .. string.sub(id, 1, 22), id)
  end
end
