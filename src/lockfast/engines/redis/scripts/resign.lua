-- Remove a claim for good, and notify exactly the waiters that are granted because of it.
--
-- KEYS 1 lock  2 order  3 records  4 tombstone
-- ARGV 1 id   2 '0' or, if a copy of the claim may still arrive, 'until life': the tombstone stays until
--      'until' (ms, server's clock) and for at least 'life' ms from now, since the client's idea of this
--      clock may be wrong. A tombstone that is there already is never shortened.
--
-- Reply: {1} if the claim was there, else {0}.
local id, lock, found = ARGV[1], KEYS[1], 0
local raw = redis.call('GET', lock)
local leave
if raw and string.sub(raw, 1, 32) == id then
  redis.call('DEL', lock)
  found = 1
elseif raw and string.sub(raw, 1, 1) == 'Q' then
  --#include stored.lua
  --#include rights.lua
  --#include queue.lua
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  local q = open(lock, KEYS[2], KEYS[3], raw, now) -- this and the next step may fail, before the tombstone
  permit(q.order, q.records, false, true)
  leave = function()
    prune(q, now)
    local claim = q.members > 0 and find(q, id)
    if claim then
      remove(q, claim)
      found = 1
    end
    advance(q, '')
    save(q, now)
  end
end
if ARGV[2] ~= '0' then
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.ceil(time[2] / 1000)
  local known, life = string.match(ARGV[2], '^(%d+) (%d+)$')
  local stands = math.max(tonumber(known), now + life, now + redis.call('PTTL', KEYS[4]))
  -- A full server refuses a script's first write if that could need memory. SET could, but DEL never does.
  redis.call('DEL', KEYS[4])
  -- At most 2^53 - 1: Lua would round up an expiry near 2^63, set by another program, to 2^63, which SET
  -- refuses.
  redis.call('SET', KEYS[4], '', 'PXAT', string.format('%.0f', math.min(stands, 9007199254740991)))
end
if leave then
  leave()
end
return {found}
