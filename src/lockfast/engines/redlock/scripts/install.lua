-- Make a node a member of a new set: at the first start, or after a majority has lost its data.
--
-- KEYS 1 member (see enter.lua)   ARGV 1 prefix of the marks   2 how many buckets   3 mark
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
local keys = {}
for bucket = 0, ARGV[2] - 1 do
  keys[bucket + 1] = ARGV[1] .. '{' .. bucket .. '}'
end
-- MGET takes a key of another type for a missing one. GET would fail there, after some marks were written.
for i, raw in ipairs(redis.call('MGET', unpack(keys))) do
  local mark, longest = string.match(raw or '', '^(%d+) (%d+)$')
  if not mark or tonumber(mark) < tonumber(ARGV[3]) then
    redis.call('SET', keys[i], ARGV[3] .. ' ' .. (longest or '0'))
  end
end
redis.call('SET', KEYS[1], 'M ' .. run)
return 1
