-- Add the record of a break to those of one lock and drop the oldest, or only return the records.
--
-- KEYS 1 records, one line each, the newest first
-- ARGV 1 the record   2 how many records to keep   3 for how many ms; or none, only to read
--
-- Reply: the records.
local kept = redis.call('GET', KEYS[1])
if #ARGV == 0 then
  return kept and string.sub(kept, 1, 70000) -- lockfast writes no more, but other programs may
end
local lines, count = ARGV[1], 1
for line in string.gmatch(kept or '', '[^\n]+') do
  if count >= tonumber(ARGV[2]) then
    break
  end
  lines = lines .. '\n' .. line
  count = count + 1
end
redis.call('SET', KEYS[1], lines, 'PX', ARGV[3])
return lines
