-- How claims are stored as text. The other scripts include this file.
--
-- lock     of a sole holder without waiters: 'id ticket record'. Else the state of the queue, 'Q v1 ...'
-- records  id -> 'ticket record'
--
-- A record is 'v1 kind capacity weight ttl payload', as core/record.py writes it: v1 is the format, and the
-- ttl is in ms. Every format has its number in this place, so that each version can tell the others. Format
-- 0 has none: 'id ticket capacity weight ttl wait_ttl payload', and 'Q' with eight numbers.

local TOP = 9007199254740992 -- 2^53: numbers from here on are not exact, and later commands refuse some
local LONGEST_WAIT = 10000 -- ms that a waiter lives at most without a renewal

-- Return the claim that 'id ticket record' describes, or nil if it is no record of this format.
local function claim_of(raw)
  local id, ticket, record, kind, capacity, weight, ttl, payload =
    string.match(raw, '^(%x+) ([1-9]%d*) (v1 ([123]) (%d+) (%d+) (%d+) (.*))$')
  if not id or math.max(ticket, capacity, weight, ttl) >= TOP then
    return nil
  end
  ttl = tonumber(ttl)
  return {id = id, digits = ticket, ticket = tonumber(ticket), record = record, kind = kind,
          capacity = tonumber(capacity), weight = tonumber(weight), ttl = ttl,
          wait = math.min(ttl, LONGEST_WAIT), payload = payload}
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

