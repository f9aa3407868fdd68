-- Read the marks of all buckets, for a node that is to join.
--
-- ARGV 1 prefix of the marks   2 how many buckets   3 the `since` of the node that is to join
--
-- Reply: {'marks', since, {'mark longest' or false, per bucket}}. It says what it answers: it may come
-- late, and marks that were read for an earlier start of the node must not count.
-- Marks are named here and not declared: each node is a server of its own, not part of a cluster.
local keys = {}
for bucket = 0, ARGV[2] - 1 do
  keys[bucket + 1] = ARGV[1] .. '{' .. bucket .. '}'
end
return {'marks', ARGV[3], redis.call('MGET', unpack(keys))}
