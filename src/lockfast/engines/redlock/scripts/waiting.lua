-- The waiting room of one lock: whom to tell when it is free. It is no queue: it gives no right.
--
-- order    a sorted set with two members per waiter: id by its first token, and '~id' by minus its
--          expiry in ms. So the expiries sort before the tokens, the latest first.
-- records  id -> payload
-- Both end by themselves, some time after the last waiter has. They are named here and not declared,
-- since hardly any call needs them: each node is a server of its own, not part of a cluster.
--
-- No script stops after its first write, because Redis does not undo what a script wrote before an
-- error. The room gives no right, so what fails in it (keys of a wrong type, a user without rights to
-- ZADD, ZREM, HSET, HDEL) fails there alone: callers use 'hint', which returns nil then. PUBLISH fails
-- without rights to the channel: pcall. The other commands of the scripts are GET, MGET, SET, PSETEX,
-- DEL, PEXPIRE, PTTL, SETRANGE and EXISTS; those on the lock's key run after a read that fails first if it is
-- no string, and a mark is read with MGET, which takes another type for a missing one. Redis raises OOM, READONLY, MISCONF and NOREPLICAS at a script's first write only.
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
  -- Each key is made to end before the next is written: if that fails, nothing is left that stays for ever.
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

-- Return how many wait, after this one has left: it may have waited here, and won elsewhere.
local function behind(order, records, id)
  leave(order, records, id)
  prune(order, records)
  return redis.call('HLEN', records)
end

-- Keep the lock for whoever has waited longest, and tell it. Only for a moment, and it is told only
-- once: if it does not come, others will.
local function invite(lock, order, records, prefix, moment)
  prune(order, records)
  -- Up to 2^53: a stranger's score beyond that would make a value of the lock that no claim can read.
  local first = redis.call('ZRANGEBYSCORE', order, '(0', '(9007199254740992', 'WITHSCORES', 'LIMIT', 0, 1)
  local id = first[1]
  if id then
    local payload = redis.call('HGET', records, id) or ''
    redis.call('PSETEX', lock, moment, string.format('R%s %016.0f - %s ', id, first[2], moment) .. payload)
    leave(order, records, id)
    redis.pcall('PUBLISH', prefix .. string.sub(id, 1, 22), id)
  end
end
