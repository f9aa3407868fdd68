-- Return the claims on one lock. This changes nothing: expired claims are left out, but not deleted.
--
-- KEYS 1 lock  2 order  3 records        ARGV 1 how many claims at most
--
-- Reply: per claim {id, ticket, granted, left in ms, record}, by ticket (see stored.lua).
--#include stored.lua
local function record_of(claim)
  return string.sub(claim.stored, #claim.digits + 2)
end

local raw = redis.call('GET', KEYS[1])
if not raw then
  return {}
end
local other = other_format(raw)
if other then
  return redis.error_reply(other)
end
if string.sub(raw, 1, 1) ~= 'Q' then
  local claim = holder_of(raw)
  return claim and {{claim.id, claim.digits, 1, redis.call('PTTL', KEYS[1]), record_of(claim)}} or {}
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local shown = {}
local ids = redis.call('ZRANGEBYSCORE', KEYS[2], '(0', '+inf', 'LIMIT', 0, ARGV[1])
local ahead, granted = 0, true
for _, id in ipairs(ids) do
  local left = -(redis.call('ZSCORE', KEYS[2], '~' .. id) or now) - now
  local stored = redis.call('HGET', KEYS[3], id)
  local claim = left > 0 and stored and string.find(id, '^%x+$') and claim_of(id, stored)
  if claim then -- a record that another program has written must not hide the others
    ahead = ahead + claim.weight
    granted = granted and ahead <= claim.capacity
    shown[#shown + 1] = {id, claim.digits, granted and 1 or 0, left, record_of(claim)}
  end
end
return shown
