-- Raise the mark and apply commands in one atomic step, or reject a stale holder.
--
-- KEYS 1 mark  a string, "token id", without an expiry
--      2...    the keys of the commands, only on a Cluster, which needs to know them
-- ARGV 1 of a holder: "token id", the new value of the mark; of a reader: "floor ticket."
--      2... the commands, each as the number of its words, followed by the words
--
-- Reply: the token of the mark, as a string, if the holder is stale. Otherwise the list of the
--        commands' replies. If a command fails, the list ends with its error, and the commands
--        before it stay applied.
--
-- Tokens are compared as strings of digits: a longer string is higher. Lua's numbers would lose
-- digits of large tokens (trap 53).
local function above(a, b)
  if #a ~= #b then
    return #a > #b
  end
  return a > b
end

local mark = redis.call('GET', KEYS[1])
if mark ~= ARGV[1] then
  local leave, token = ARGV[1], string.match(ARGV[1], '^%d+')
  local floor, ticket = string.match(ARGV[1], '^(%d+) (%d+)%.$')
  if floor then
    leave, token = floor .. ' ', ticket
  end
  if mark then
    local current = string.match(mark, '^(%d+) %w*$')
    if not current then
      return redis.error_reply('LOCKFAST the mark is not one of ours: nothing was applied')
    end
    if above(current, token) or (not floor and current == token) then
      return current
    end
    if floor and not above(floor, current) then
      leave = mark
    end
  end
  if leave ~= mark then
    redis.call('SET', KEYS[1], leave)
  end
end

local replies, at = {}, 2
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
