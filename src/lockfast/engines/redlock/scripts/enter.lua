-- Greet a node: is it still the process that became a member?
--
-- KEYS 1 member   'M run' of a member, 'J run since' of one that is to join
-- ARGV 1 prefix of the marks   2 how many buckets
--
-- A process that has started anew may have lost the last writes, or have come back with an old
-- snapshot, whatever its data look like. So it is a member no more until it has joined again.
-- Marks are named here and not declared: each node is a server of its own, not part of a cluster.
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
local raw = redis.call('GET', KEYS[1])
local was = raw and string.match(raw, '^%u (%x+)')
if was == run then
  return 1
end
for bucket = 0, ARGV[2] - 1 do
  redis.call('DEL', ARGV[1] .. '{' .. bucket .. '}')
end
if raw then
  local time = redis.call('TIME')
  redis.call('SET', KEYS[1], string.format('J %s %.0f', run, time[1] * 1000000 + time[2]))
end
return 0
