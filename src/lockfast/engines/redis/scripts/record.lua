-- Put the record of a break in front of those of one lock, and cut the oldest; or only read them.
--
-- KEYS 1 records, one line each, the newest first
-- ARGV 1 the record, or nothing to read   2 how many are kept   3 for how many ms
--
-- Reply: the records.
local kept = redis.call('GET', KEYS[1])
if #ARGV == 0 then
  return kept and string.sub(kept, 1, 70000) -- as much as we write at most; anybody may write there
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
