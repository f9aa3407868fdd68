-- Make a node a member again, once no lease that it has forgotten can still be valid.
--
-- KEYS 1 member (see enter.lua)   2 a mark that was found missing
-- ARGV 1 prefix of the marks   2 the ms that a proposal may be under way
--      3 the `since` of an earlier reply, or '' to begin   4... per bucket 'mark longest', the highest
--        of a majority of members, read after that reply; or '' where no majority has one
--
-- Reply: {'member'}, or {'since', since, ms gone by}, or {'left', buckets still to join, ms to wait}.
--
-- After the longest ttl, a lease that was won with this node's forgotten acceptance has ended, or is known
-- to a majority of the others. A proposal that counted the acceptance has ended long before that.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
local raw = redis.call('GET', KEYS[1])
local since = raw and string.match(raw, '^J ' .. run .. ' (%d+)$')
if not since and redis.call('EXISTS', KEYS[2]) == 1 then
  return {'member'}
end
if not since or tonumber(since) > now then -- the wait begins, or begins again because the clock went back
  since = string.format('%.0f', now)
  redis.call('SET', KEYS[1], 'J ' .. run .. ' ' .. since)
end
local gone = (now - since) / 1000
if ARGV[3] ~= since then
  return {'since', since, math.floor(gone)}
end
local left, wait = 0, 0
for bucket = 0, #ARGV - 4 do
  local key = ARGV[1] .. '{' .. bucket .. '}'
  if redis.call('EXISTS', key) == 0 then
    local longest = tonumber(string.match(ARGV[bucket + 4], ' (%d+)$'))
    local pause = math.max(longest or 0, tonumber(ARGV[2])) - gone
    if longest and pause <= 0 then
      redis.call('SET', key, ARGV[bucket + 4])
    else
      left = left + 1
      wait = math.max(wait, pause)
    end
  end
end
if left == 0 then
  redis.call('SET', KEYS[1], 'M ' .. run)
  return {'member'}
end
return {'left', left, math.floor(wait)}
