-- Return the holder of a lock on this node, and its waiters. This changes nothing: expired waiters are
-- left out, but not deleted.
--
-- KEYS 1 lock  2 mark        ARGV 1 how many at most
--
-- Reply: {id, token, 1 if it holds the lock else 0, left in ms, payload} for each, the holder first.
--#include waiting.lua
local order, records = room(KEYS[1], KEYS[2])
local shown = {}
local raw = redis.call('GET', KEYS[1])
if raw then
  local kept, id, token, payload = string.match(raw, '^(R?)(%x+) (%d+) . v1 1 1 1 %d+ (.*)$')
  if id then -- another format, or a value that another program has written, is left out
    shown[1] = {id, token, kept == '' and 1 or 0, redis.call('PTTL', KEYS[1]), payload}
  end
end
local at = now()
local waiters = redis.call('ZRANGEBYSCORE', order, '(0', '+inf', 'WITHSCORES', 'LIMIT', 0, ARGV[1])
for i = 1, #waiters, 2 do
  local id = waiters[i]
  local left = -(redis.call('ZSCORE', order, '~' .. id) or 0) - at
  if left > 0 then
    local token = digits(waiters[i + 1])
    shown[#shown + 1] = {id, token, 0, left, redis.call('HGET', records, id) or ''}
  end
end
return shown
