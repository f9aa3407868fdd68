-- Remove claims for good, and push to whoever may now be let in, and to nobody else.
--
-- KEYS per claim: lock, order, records, tombstone
-- ARGV per claim: id, and '0' or, when a copy of the claim may still be on its way, 'until life': the ms
--      (server's clock) until which the tombstone must stand, and the ms that it stands from now on at the
--      least. What a client knows of this clock may be wrong; and nobody shortens a tombstone.
--
-- Reply: per claim 1 if it was there, else 0.
local replies, queued, raws = {}, {}, {}
for i = 1, #ARGV / 2 do
  local id, lock = ARGV[i * 2 - 1], KEYS[i * 4 - 3]
  local raw = redis.call('GET', lock)
  replies[i] = 0
  if raw and string.sub(raw, 1, 32) == id then
    redis.call('DEL', lock)
    replies[i] = 1
  elseif raw and string.sub(raw, 1, 1) == 'Q' then
    queued[#queued + 1] = i
    raws[lock] = raw
  end
  if ARGV[i * 2] ~= '0' then
    local tomb, time = KEYS[i * 4], redis.call('TIME')
    local now = time[1] * 1000 + math.ceil(time[2] / 1000)
    local known, life = string.match(ARGV[i * 2], '^(%d+) (%d+)$')
    local stands = math.max(tonumber(known), now + life, now + redis.call('PTTL', tomb))
    -- A full server refuses a script's first write if it could need memory, as SET could. DEL never does.
    redis.call('DEL', tomb)
    redis.call('SET', tomb, '', 'PXAT', string.format('%.0f', stands))
  end
end
if #queued == 0 then
  return replies
end

--#include queue.lua
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for _, i in ipairs(queued) do
  local lock = KEYS[i * 4 - 3]
  local raw = raws[lock] or redis.call('GET', lock)
  raws[lock] = nil
  if raw then -- an earlier one of this call may have been the last
    local q = open(lock, KEYS[i * 4 - 2], KEYS[i * 4 - 1], raw, now)
    local claim = q.members > 0 and find(q, ARGV[i * 2 - 1])
    if claim then
      remove(q, claim)
      replies[i] = 1
    end
    advance(q, '')
    save(q, now)
  end
end
return replies
