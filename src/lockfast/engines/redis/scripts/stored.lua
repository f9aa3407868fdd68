-- How claims are stored as text. The other scripts include this file.
--
-- lock     of a sole holder without waiters: 'id ticket record'. Else the state of the queue, 'Q v1 ...'
-- records  id -> 'ticket record'
--
-- A record is 'v1 kind capacity weight ttl payload', as core/record.py writes it: v1 is the format, and the
-- ttl is in ms. Every format has its number in this place, so that each version can tell the others. Format
-- 0 has none: 'id ticket capacity weight ttl wait_ttl payload', and 'Q' with eight numbers.

local TOP = 9007199254740992 -- 2^53: numbers from here on are not exact, and later commands refuse some
local LONGEST = 86400000 -- ms that a claim lives at most without a renewal
local LONGEST_WAIT = 10000 -- ms that a waiter lives at most without a renewal
local STATE = '^Q v1 ([123]) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$' -- see queue.lua

-- Write a whole number below 2^53. '..' would write 1.7e+15 (trap 53). '%.0f' takes twice as long as '%d',
-- which a Redis of 32 bits limits to 2^31: so the number is written in two parts.
local function digits(number)
  if number < 0 then
    return '-' .. digits(-number)
  elseif number < 10000000 then
    return string.format('%d', number)
  end
  local low = number % 10000000
  return string.format('%d%07d', (number - low) / 10000000, low)
end

-- Return the claim with an id and a stored 'ticket record', or nil if that is no record of this format. The
-- payload begins at the place 'rest'. It is not cut out here, because most callers do not need it.
local function claim_of(id, stored)
  local written, kind, capacity, weight, ttl, rest =
    string.match(stored, '^([1-9]%d*) v1 ([123]) (%d+) (%d+) (%d+) ()')
  if not written then
    return nil
  end
  local ticket = tonumber(written)
  capacity, weight, ttl = tonumber(capacity), tonumber(weight), tonumber(ttl)
  if math.max(ticket, capacity, weight, ttl) >= TOP then
    return nil
  end
  return {id = id, digits = written, ticket = ticket, stored = stored, kind = kind, capacity = capacity,
          weight = weight, ttl = ttl, wait = math.min(ttl, LONGEST_WAIT), rest = rest}
end

-- Return the claim of a sole holder from the lock's value, or nil if that is none of this format.
local function holder_of(raw)
  local id, place = string.match(raw, '^(%x+) ()')
  return id and claim_of(id, string.sub(raw, place))
end

-- Return the text of a queue's state.
local function state_of(kind, granted, held, frontier, newest, seen, kept)
  return 'Q v1 ' .. kind .. ' ' .. granted .. ' ' .. held .. ' ' .. frontier .. ' ' .. newest .. ' ' .. seen
    .. ' ' .. kept
end

-- Return the error for a lock's value of another format, or nil if the value is not one.
local function other_format(raw)
  local number = string.match(raw, '^Q v([1-9]%d*) ') or string.match(raw, '^%x+ [1-9]%d* v([1-9]%d*) ')
  if not number and (string.find(raw, '^Q' .. string.rep(' %d+', 8) .. '$')
                     or string.find(raw, '^%x+ [1-9]%d*' .. string.rep(' %d+', 4) .. ' ')) then
    number = '0'
  end
  return number and number ~= '1' and #number < 10 and 'LOCKFAST format ' .. number or nil
end

