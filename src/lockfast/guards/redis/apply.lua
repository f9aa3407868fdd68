-- Raise the mark and apply commands, or refuse: one atomic step.
--
-- KEYS 1 mark  a string, "token id"; it has no expiry
--      2...    the keys of the commands, where somebody needs to know them (Cluster)
-- ARGV 1 the mark to leave: "token id", or "floor " for a reader
--      2 the token to show: a holder's token, a reader's ticket
--      3 'w' for a holder, 'r' for a reader
--      4... the commands, each as the number of its words and its words
--
-- Reply: the mark's token, as a string, if that one is refused; else the list of the commands'
--        replies. It ends with an error where a command failed: those before it stay applied.
--
-- Tokens are compared as strings of digits, the longer one first: no number of Lua's is involved,
-- so none loses a digit (TRAPS 53).
local function above(a, b)
  if #a ~= #b then
    return #a > #b
  end
  return a > b
end

local mark = redis.call('GET', KEYS[1])
if mark ~= ARGV[1] then
  local raise = true
  if mark then
    local current = string.match(mark, '^(%d+) %w*$')
    if not current then
      return redis.error_reply('LOCKFAST the mark is not one of ours: nothing was applied')
    end
    if ARGV[3] == 'w' then
      if not above(ARGV[2], current) then
        return current
      end
    elseif above(current, ARGV[2]) then
      return current
    else
      raise = above(string.match(ARGV[1], '^%d+'), current)
    end
  end
  if raise then
    redis.call('SET', KEYS[1], ARGV[1])
  end
end

local replies, at = {}, 4
while ARGV[at] do
  local last = at + ARGV[at]
  local reply = redis.pcall(unpack(ARGV, at + 1, last))
  replies[#replies + 1] = reply
  if type(reply) == 'table' and reply.err then
    break
  end
  at = last + 1
end
return replies
