-- Return the marks of all buckets, for another node that is to join.
--
-- ARGV 1 prefix of the marks   2 how many buckets   3 the `since` of the node that is to join
--
-- Reply: {'marks', since, {'mark longest' or false, per bucket}}. It repeats `since`, because it may arrive
-- late, and marks that were read for an earlier start of the joining node must not count.
-- The script builds the keys of the marks and does not declare them. It may, because each node is a
-- server of its own and not part of a Cluster.
local keys = {}
for bucket = 0, ARGV[2] - 1 do
  keys[bucket + 1] = ARGV[1] .. '{' .. bucket .. '}'
end
return {'marks', ARGV[3], redis.call('MGET', unpack(keys))}
