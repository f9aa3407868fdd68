-- Which commands the user of a connection may run. The scripts that write to a queue include this file.

-- Raise an error, before anything is written, if this user may not run a command that comes later. 'adds'
-- and 'removes' tell which commands come: each check costs a quarter of a command. Redis before 7.0 cannot
-- check this.
local function permit(order, records, adds, removes)
  local may = redis.acl_check_cmd
  if may
     and not (may('PEXPIREAT', order, '0')
              and (not adds or (may('ZADD', order, '0', '') and may('HSET', records, '', '')))
              and (not removes or (may('ZREM', order, '') and may('HDEL', records, '')))) then
    error({err = 'NOPERM this user has no permissions to run ZADD, ZREM, HSET, HDEL and PEXPIREAT in scripts'})
  end
end

-- The same for the commands that read a queue after the first write. 'makes': the script turns a sole holder
-- into a queue, so it has read none. Without these rights, this user could not renew the holder any more.
local function permit_reads(order, records, makes)
  local may = redis.acl_check_cmd
  if may
     and not (may('ZRANGE', order, '0', '0') and may('HGET', records, '')
              and (not makes or (may('ZCARD', order) and may('HLEN', records)
                                 and may('ZRANGEBYSCORE', order, '0', '0')
                                 and may('ZREVRANGEBYSCORE', order, '0', '0')))) then
    error({err = 'NOPERM this user has no permissions to run ZRANGE, ZRANGEBYSCORE, ZREVRANGEBYSCORE, ZCARD, HGET and HLEN in scripts'})
  end
end
