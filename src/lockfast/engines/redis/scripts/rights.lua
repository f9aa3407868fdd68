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

