-- Release what a claim has on this node, and have the node refuse copies that arrive later (traps 32, 47).
--
-- KEYS 1 lock   2 mark (see claim.lua)
-- ARGV 1 'id token - '
--      2 ms for which to reserve the lock for the longest waiter. Then whatever the claim has is released. Or 0
--        to withdraw only the proposal with this number, which did not win, and stay in the waiting room
--      3 ms for which to refuse the claim's id, whatever the number; or nothing, if no copy can be under way
--
-- Reply: 1 if the claim held the lock here, 2 if it waited here, else 0.
local raw = redis.call('GET', KEYS[1])
if raw and not ARGV[3] and string.sub(raw, 1, 52) == ARGV[1] then
  redis.call('DEL', KEYS[1]) -- the mark is at least this token, so copies are refused
  return 1
end
local id, token, found = string.sub(ARGV[1], 1, 32), string.sub(ARGV[1], 34, 49), 0
local mark = redis.call('MGET', KEYS[2])[1] -- GET would fail if it is no string, and the lock would stay
if raw then
  local kept, holder, number, flag = string.match(raw, '^(R?)(%x+) (%d+) (.)')
  -- A withdrawal may be a late copy, and the claim may have another number by now. Or another engine has
  -- adopted this one, and its client may hold by it.
  if holder == id and (kept == 'R' or ARGV[2] ~= '0' or (number == token and flag ~= 'A')) then
    redis.call('DEL', KEYS[1])
    found = kept == 'R' and 2 or 1
  end
end
if ARGV[3] or (mark and token > string.sub(mark, 1, 16)) then
  -- A full server refuses a script's first write if that could need memory. SET could, but DEL never does.
  redis.call('DEL', KEYS[2] .. '!')
end
if mark and token > string.sub(mark, 1, 16) then
  redis.call('SET', KEYS[2], token .. string.sub(mark, 17))
end
if ARGV[3] and redis.call('PTTL', KEYS[2] .. '~' .. id) < tonumber(ARGV[3]) then
  redis.call('PSETEX', KEYS[2] .. '~' .. id, ARGV[3], '1')
end
if ARGV[2] == '0' then
  return found
end

--#include waiting.lua
local order, records = room(KEYS[1], KEYS[2])
local waited = hint(leave, order, records, id)
if found > 0 then
  hint(invite, KEYS[1], order, records, string.match(KEYS[2], '^[^{]+'), ARGV[2])
  return found
end
return waited and 2 or 0
