-- Return the claims on one lock. This changes nothing: expired claims are left out, but not deleted.
--
-- KEYS 1 lock  2 order  3 records        ARGV 1 how many claims at most
--
-- Reply: per claim {id, ticket, granted, left in ms, weight, capacity, payload}, by ticket.
local raw = redis.call('GET', KEYS[1])
if not raw then
  return {}
end
if string.sub(raw, 1, 1) ~= 'Q' then
  local id, ticket, capacity, weight, payload =
    string.match(raw, '^(%x+) (%d+) (%d+) (%d+) %d+ %d+ (.*)$')
  return {{id, ticket, 1, redis.call('PTTL', KEYS[1]), weight, capacity, payload}}
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local shown = {}
local ids = redis.call('ZRANGEBYSCORE', KEYS[2], '(0', '+inf', 'LIMIT', 0, ARGV[1])
local ahead = 0
for _, id in ipairs(ids) do
  local left = -(redis.call('ZSCORE', KEYS[2], '~' .. id) or now) - now
  local record = redis.call('HGET', KEYS[3], id)
  if left > 0 and record then
    local ticket, capacity, weight, payload = string.match(record, '^(%d+) (%d+) (%d+) %d+ %d+ (.*)$')
    if ticket then -- a record that another program has written must not hide the others
      ahead = ahead + weight
      shown[#shown + 1] = {id, ticket, ahead <= tonumber(capacity) and 1 or 0, left, weight, capacity, payload}
    end
  end
end
return shown
