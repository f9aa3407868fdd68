-- Renew the claims of holders and waiters, and return their standings.
--
-- KEYS per claim: lock, order, records        ARGV per claim: id, ttl in ms
-- While a slot moves, KEYS may be the lock's key alone, for one claim. Redis Cluster then refuses a script
-- if some of its keys are absent, and a sole holder has no queue. A claim in a queue gets an error.
--
-- Reply: for each claim its ticket (the sole holder, for its whole ttl), a standing (see queue.lua), false
-- (it is gone) or an error, and last the server's time in ms. An error concerns one claim only.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local replies, queued = {}, {}
for i = 1, #ARGV / 2 do
  local id = ARGV[i * 2 - 1]
  local raw = redis.pcall('GET', KEYS[i * 3 - 2])
  if type(raw) == 'string' and string.sub(raw, 1, 32) == id then
    local ticket = string.match(raw, '^[1-9]%d*', 34)
    if ticket and tonumber(ticket) < 9007199254740992 then -- 2^53
      redis.call('PEXPIRE', KEYS[i * 3 - 2], ARGV[i * 2])
      replies[i] = ticket
    else -- nil would cut off the rest of the reply, and a client trusts no reply with such a ticket
      replies[i] = redis.error_reply('LOCKFAST the value of the lock is not one of ours')
    end
  elseif type(raw) == 'string' and string.sub(raw, 1, 1) == 'Q' then
    if #KEYS == 1 then
      return redis.error_reply('TRYAGAIN the queue is on the move')
    end
    queued[#queued + 1] = i
  else
    replies[i] = raw and type(raw) == 'table' and raw or false
  end
end
replies[#ARGV / 2 + 1] = string.format('%.0f', now)
if #queued == 0 then
  return replies
end

--#include stored.lua
--#include rights.lua
--#include queue.lua
local queues = {}
for _, i in ipairs(queued) do
  local id, lock = ARGV[i * 2 - 1], KEYS[i * 3 - 2]
  local fine, reply = pcall(function()
    local q = queues[lock]
    if not q then
      q = open(lock, KEYS[i * 3 - 1], KEYS[i * 3], redis.call('GET', lock), now) -- only this and
      permit(q.order, q.records, true, false) -- this may fail
      -- If the clock went back, 'prune' may need memory: see PEXPIRE below. 'save' corrects this expiry.
      if q.changed then
        redis.call('PEXPIRE', lock, ARGV[i * 2])
      end
      prune(q, now)
      advance(q, id)
      queues[lock] = q
    end
    local claim = q.members > 0 and find(q, id)
    if not claim then
      return false
    end
    -- No longer than this client asks for, even if another program changed the record: see 'standing'.
    claim.ttl, claim.wait = math.min(claim.ttl, ARGV[i * 2]), math.min(claim.wait, ARGV[i * 2])
    -- A full server refuses a script's first write if that could need memory. PEXPIRE never does, and after
    -- it Redis allows the other writes. A holder must not lose its lease because Redis is full.
    redis.call('PEXPIRE', lock, claim.ttl)
    touch(q, claim, now)
    return standing(q, id, now, claim)
  end)
  --#include failed.lua
  replies[i] = reply
end
for _, q in pairs(queues) do
  save(q, now)
end
return replies
