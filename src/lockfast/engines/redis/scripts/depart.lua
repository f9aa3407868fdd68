-- Remove a claim as resign.lua does, if it belongs to a connection of the service.
--
-- KEYS 1 to 4 and ARGV 1 to 2: those of resign.lua.  KEYS 5 connection  ARGV 3 epoch
--
-- Reply: {1} if the claim was there and was removed, else {0}.
local function resign(KEYS, ARGV)
  --#include resign.lua
end

if redis.pcall('GET', KEYS[5]) ~= ARGV[3] then -- no connection, a later one, or an error
  return {0}
end
return resign(KEYS, ARGV)
