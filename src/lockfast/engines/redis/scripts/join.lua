-- Add a claim behind claims that wait. This is the usual way into a queue, and costs half of the general one
-- in queue.lua. claim.lua includes this file, after stored.lua and rights.lua.
--
-- If anything is unusual, 'join' returns nil before it has written anything, and claim.lua continues with
-- queue.lua. A claim that joins here is not granted, whatever its weight, because others wait.

-- Return the standing of a claim that was added, or nil.
local function join(raw, lock, last, order, records, id, ticket, record, now)
  local kind, granted, held, frontier, newest, seen, kept = string.match(raw, STATE)
  -- Texts of up to 15 digits are below 2^53.
  if not kept or #granted > 15 or #held > 15 or #kept > 15 or now < tonumber(seen) then
    return nil -- another program edited the state, or the clock went back
  end
  local top = tonumber(newest)
  if top >= tonumber(ticket) or (frontier ~= newest and tonumber(frontier) > top) then
    return nil -- the server lost its counter, or another program edited the state
  end
  local mine, ttl = string.match(record, '^v1 ([123]) %d+ %d+ (%d+) ')
  local members, time = redis.call('ZCARD', order) / 2, digits(now)
  if mine ~= kind or members <= tonumber(held) or members ~= redis.call('HLEN', records)
     or #redis.call('ZRANGEBYSCORE', order, '-' .. time, '(0') > 0 or redis.call('HGET', records, id) then
    return nil -- another kind, nobody waits, a part of the queue is gone, a claim expired, or this one is there
  end
  local place = digits(members) -- in the order, the first claim comes after all expiries
  local head = redis.call('ZRANGE', order, place, place)[1]
  local stored = redis.call('HGET', records, head)
  local first, payload = string.match(stored or '', '^([1-9]%d*) v1 [123] %d+ %d+ %d+ ()')
  if not first or not string.find(head, '^%x+$')
     or (first ~= frontier and tonumber(first) > tonumber(frontier)) then
    return nil -- an unreadable claim, or one that another program moved
  end
  -- If the lock's key lives as long as this claim, it lives as long as all claims, and keeps its expiry.
  local life, left = math.min(ttl, LONGEST_WAIT), redis.call('PTTL', lock)
  if left < life or left > LONGEST then
    return nil
  end
  permit(order, records, true, true) -- also what its release needs, as in claim.lua
  redis.call('SET', last, ticket)
  redis.call('HSET', records, id, ticket .. ' ' .. record)
  redis.call('ZADD', order, ticket, id, digits(-(now + life)), '~' .. id)
  redis.call('SET', lock, state_of(kind, granted, held, frontier, ticket, time, kept), 'KEEPTTL')
  return {ticket, 0, life, members, 0, first, -1, head, first, string.sub(stored, payload)}
end

