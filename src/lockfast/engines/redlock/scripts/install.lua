-- Make a node a member of a new set: for the first start, and after a majority was lost.
--
-- KEYS 1 member (see enter.lua)   ARGV 1 prefix of the marks   2 how many buckets   3 mark
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
for bucket = 0, ARGV[2] - 1 do
  local key = ARGV[1] .. '{' .. bucket .. '}'
  local mark, longest = string.match(redis.call('GET', key) or '', '^(%d+) (%d+)$')
  if not mark or tonumber(mark) < tonumber(ARGV[3]) then
    redis.call('SET', key, ARGV[3] .. ' ' .. (longest or '0'))
  end
end
redis.call('SET', KEYS[1], 'M ' .. run)
return 1
