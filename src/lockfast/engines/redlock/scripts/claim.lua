-- Accept a proposal, or return why this node does not.
--
-- KEYS 1 lock     'id token F record' of the holder; F is A if a second engine has adopted the proposal
--                 (a claim may wait too), W if a claim waits, else -. With an R in front,
--                 the lock is reserved for a waiter for a moment. A record is 'v1 1 1 1 ttl payload', as
--                 core/record.py writes it: v1 is the format, and 1 1 1 are the kind, capacity and weight
--                 of a lock. Format 0 had 'ttl payload' in its place
--      2 mark     'mark longest': the highest number that this bucket has accepted, in 16 digits, and
--                 the longest ttl. Without this key, the node has lost its data and is not a member
-- ARGV 1 'id token F record': what to write   2 ttl in ms
--      3 the first token of this claim, the last one that this engine has proposed before, which may be
--        replaced (or 0), and the ms to stay in the waiting room, or 0
--
-- Reply, with times in ms:
--   1                                        accepted, for the whole ttl
--   {'mine', left}                           an earlier copy of this proposal was accepted
--   {'other', mark, left, token}             another engine has proposed the claim with this number
--   {'dead'}                                 the claim has been resigned: see resign.lua
--   {'mark', mark}                           the number is not above the mark
--   {'stranger', the mark's key}             the node is not a member
--   {'busy', mark, left, id, token, payload} another claim holds the lock, or it is reserved for one
--
-- A client may move to another engine while a proposal is under way, and both may propose the claim. Neither
-- replaces the number of the other, because a client may hold by it. It adopts a number that a majority has,
-- and with A the first engine can neither withdraw nor replace that any more.
local mine = ARGV[1]
local id = string.sub(mine, 1, 32)
local got = redis.call('MGET', KEYS[1], KEYS[2], KEYS[2] .. '~' .. id)
local raw, mark = got[1], got[2]
if not mark then
  return {'stranger', KEYS[2]}
end
if got[3] then
  return {'dead'}
end
local token, highest, longest = string.sub(mine, 34, 49), string.sub(mark, 1, 16), string.sub(mark, 18)
if ARGV[2] ~= longest then
  if not tonumber(longest) then -- before the first write: a claim that fails must stay in the waiting room
    return redis.error_reply('LOCKFAST the mark is not one of ours')
  end
  if tonumber(ARGV[2]) > tonumber(longest) then
    longest = ARGV[2]
  end
end
local since = string.sub(ARGV[3], 1, 16)
local others = false
if raw or since ~= token then
  --#include waiting.lua
  local order, records = room(KEYS[1], KEYS[2])
  local last, wait = string.sub(ARGV[3], 18, 33), string.sub(ARGV[3], 35)
  if raw then
    local kept, holder, number, life, payload = string.match(raw, '^(R?)(%x+) (%d+) . v1 1 1 1 (%d+) (.*)$')
    if holder ~= id or (kept == '' and (number ~= last or string.sub(raw, 51, 51) == 'A')) then
      if not life then
        local format = string.match(raw, '^R?%x+ %d+ . v([1-9]%d*) ')
          or string.find(raw, '^R?%x+ %d+ . %d+ ') and '0' or '1'
        if format ~= '1' and #format < 10 then
          return redis.error_reply('LOCKFAST format ' .. format)
        end
        return redis.error_reply('LOCKFAST the value of the lock is not one of ours')
      end
      local left = redis.call('PTTL', KEYS[1])
      if left > tonumber(life) then -- the node's clock went back
        left = tonumber(life)
        redis.call('PEXPIRE', KEYS[1], left)
      end
      if holder == id and number ~= token then
        return {'other', highest, left, number}
      end
      if holder == id then
        if string.sub(mine, 51, 51) == 'A' then
          redis.call('SETRANGE', KEYS[1], 50, 'A')
        end
        return {'mine', left}
      end
      if wait ~= '0' and token > highest then -- it waits, and is no late copy
        hint(stay, order, records, id, since, wait, string.match(mine, '^%x+ %d+ . v1 1 1 1 %d+ (.*)$'))
        if kept == '' and string.sub(raw, 51, 51) == '-' then
          redis.pcall('SETRANGE', KEYS[1], 50, 'W') -- a claim waits; this may fail, see waiting.lua
        end
      end
      return {'busy', highest, left, holder, number, payload}
    end
  end
  if token > highest then
    hint(leave, order, records, id)
    others = redis.call('EXISTS', order) == 1
  end
end
if token <= highest then -- both have 16 digits, so as text they compare like numbers
  return {'mark', highest}
end
-- Write the mark first. A mark without its lock refuses one number too many, but a lock without its mark
-- would let a lower number follow.
redis.call('SET', KEYS[2], token .. ' ' .. longest)
redis.call('PSETEX', KEYS[1], ARGV[2], mine)
if others and string.sub(mine, 51, 51) == '-' then
  redis.pcall('SETRANGE', KEYS[1], 50, 'W')
end
return 1
