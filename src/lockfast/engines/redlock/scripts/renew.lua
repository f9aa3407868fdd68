-- Renew a claim that holds the lock on this node. The id and the token decide, and never the mark, because
-- a mark says what was accepted once, not what is held (trap 33).
--
-- KEYS 1 lock   2 mark        ARGV 1 'id token '   2 ttl in ms
--
-- Reply: how many claims wait, or false if this claim does not hold the lock here.
local raw = redis.call('GET', KEYS[1])
if not raw or string.sub(raw, 1, 50) ~= ARGV[1] then
  return false
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
if string.sub(raw, 51, 51) == '-' then
  return 0
end

--#include waiting.lua
local order, records = room(KEYS[1], KEYS[2])
return hint(behind, order, records, string.sub(ARGV[1], 1, 32)) or 0
