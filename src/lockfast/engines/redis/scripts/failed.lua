-- Turn an error that 'pcall' has caught into an error reply. Redis before 7.0 raises texts.
if not fine then
  reply = type(reply) == 'table' and {err = reply.err} or redis.error_reply(tostring(reply))
end
