-- Check at login whether the node is still the process that became a member. If not, delete its marks.
--
-- KEYS 1 member   'M run' of a member, 'J run since' of one that is to join; run is the server's run_id
-- ARGV 1 prefix of the marks   2 how many buckets
--
-- Reply: 1 if it is still this process, else 0.
--
-- A process that has restarted may have lost its last writes, or have loaded an old snapshot, whatever
-- its data look like. So it is not a member until it has joined again.
-- The script builds the keys of the marks and does not declare them. It may, because each node is a
-- server of its own and not part of a Cluster.
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
