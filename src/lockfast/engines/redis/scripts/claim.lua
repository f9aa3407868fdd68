-- Append a claim to the queue of a lock, once for each id, and return its standing.
--
-- KEYS 1 lock       a string: the only holder, or the state of the queue
--      2 last       the highest ticket that this bucket has given
--      3 tombstone  of this id
--      4 order      the queue (see queue.lua)
--      5 records    the values of each claim in the queue
-- ARGV 1 id   2 ttl in ms   3 not_after in ms, server's clock   4 '1' to wait in the queue, '0' not to
--      5 token base in µs   6 record (see stored.lua)
--
-- Reply: ticket                  the claim is the only holder, for its whole ttl
--        {'dead', now}           the id has a tombstone or an unreadable record, or not_after has passed
--        {'kind', kind}          the claims that are there are of this other kind
--        or a standing as queue.lua writes it
local time = redis.call('TIME')
local got = redis.call('MGET', KEYS[1], KEYS[2], KEYS[3])
local now = time[1] * 1000 + time[2] / 1000
if got[3] or now > tonumber(ARGV[3]) then
  return {'dead', string.format('%.0f', now)}
end
local ticket = time[1] * 1000000 + time[2] + ARGV[5]
if got[2] and tonumber(got[2]) >= ticket then
  ticket = got[2] + 1
end
if ticket >= 9007199254740992 then
  return redis.error_reply('LOCKFAST ticket would reach 2^53: the clock is wrong')
end
ticket = string.format('%.0f', ticket)
local raw = got[1]
if not raw then
  redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. ticket .. ' ' .. ARGV[6], 'PX', ARGV[2])
  redis.call('SET', KEYS[2], ticket)
  return ticket
end

--#include stored.lua
--#include rights.lua
--#include join.lua
now = math.floor(now)
local id = ARGV[1]
local joined = ARGV[4] == '1' and join(raw, KEYS[1], KEYS[2], KEYS[4], KEYS[5], id, ticket, ARGV[6], now)
if joined then
  return joined
end

--#include queue.lua
local q, holder
if string.sub(raw, 1, 1) == 'Q' then
  q = open(KEYS[1], KEYS[4], KEYS[5], raw, now)
else
  holder = holder_of(raw)
  if not holder then
    return redis.error_reply(other_format(raw) or 'LOCKFAST the value of the lock is not one of ours')
  end
  q = {lock = KEYS[1], order = KEYS[4], records = KEYS[5], members = 0, held = 1, granted = holder.weight,
       kind = holder.kind, frontier = holder.ticket, frontier_digits = holder.digits, newest = holder.ticket,
       newest_digits = holder.digits, kept = 0}
end
if tonumber(ticket) <= q.newest then -- the server lost the counter, and its clock went back
  if q.newest + 1 >= TOP then -- checked before the first write: 'find' could not read such a claim
    return redis.error_reply('LOCKFAST ticket would reach 2^53: the last one of this lock is wrong')
  end
  ticket = digits(q.newest + 1)
end
local mine = claim_of(id, ticket .. ' ' .. ARGV[6])
if holder then
  local left = redis.call('PTTL', KEYS[1])
  if left > holder.ttl then -- the server's clock went back
    left = holder.ttl
    redis.call('PEXPIRE', KEYS[1], left)
  end
  if holder.id == id then
    return {holder.digits, 1, left, 0, 0, holder.digits, -1}
  end
  q.head, q.unwritten = holder, left
else
  prune(q, now)
  if q.members == 0 then
    drop(q)
    redis.call('SET', KEYS[1], id .. ' ' .. ticket .. ' ' .. ARGV[6], 'PX', ARGV[2])
    redis.call('SET', KEYS[2], ticket)
    return ticket
  end
  if q.changed then -- save also if this claim is refused: a state that counts expired claims admits nobody
    advance(q, id)
    save(q, now)
  end
  local claim, stored = find(q, id)
  if claim then
    return standing(q, id, now, claim)
  elseif stored then -- it is unreadable, and a second entry of the id would be counted twice
    return {'dead', string.format('%.0f', now)}
  end
end
if mine.kind ~= q.kind then
  return {'kind', tonumber(q.kind)}
end
if ARGV[4] == '0' and (q.held < q.members or q.granted + mine.weight > mine.capacity) then
  local head = q.head or first(q)
  return {'0', 0, 0, math.max(q.members, 1), 0, head.digits, -1, head.id, head.digits,
          string.sub(head.stored, head.rest)}
end
-- Also what its release needs: a claim that cannot be removed would block others.
permit(q.order, q.records, true, true)
if q.unwritten then -- turn the sole holder into a queue of one claim
  permit_reads(q.order, q.records, true)
  redis.call('DEL', q.order, q.records)
  append(q, q.head, now + q.unwritten)
end
redis.call('SET', KEYS[2], ticket)
-- If others wait, the first of them does not fit yet: every script that could change this has called
-- 'advance'. So this claim is granted now only if nobody waits.
if q.held == q.members then
  grant(q, mine)
end
append(q, mine, now + life(q, mine))
save(q, now)
return standing(q, id, now, mine, true)
