-- Store which connection of the service each claim belongs to, unless it belongs to a later one.
--
-- KEYS per claim: connection        ARGV per claim: epoch, for how many ms to remember it
--
-- Reply: for each claim 1 if it belongs to this connection now, else 0.
local replies = {}
for i = 1, #KEYS do
  local epoch = ARGV[i * 2 - 1]
  local latest = redis.pcall('GET', KEYS[i]) -- an error if another program has written a list there
  latest = type(latest) == 'string' and tonumber(latest) or 0
  if latest > tonumber(epoch) then
    replies[i] = 0
  else
    -- A full server refuses a script's first write if that could need memory. SET could, but DEL never does.
    redis.call('DEL', KEYS[i])
    redis.call('SET', KEYS[i], epoch, 'PX', ARGV[i * 2])
    replies[i] = 1
  end
end
return replies
