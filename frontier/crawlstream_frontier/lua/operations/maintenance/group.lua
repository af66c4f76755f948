#!lua flags=allow-oom
-- group: a stream and its consumer group are there.
-- Guarantee: also in a full Redis, which would take neither from a client: what drains it must be
--   able to begin. The group reads from the stream's beginning.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 name of the stream, below the prefix, 2 name of the group.
-- Returns: 1 if it was made now, 0 if it was there.
-- Cost: one command.
--- include: present
local STREAMS = { outbox = K.outbox, actions = K.actions }
local made = redis.pcall('XGROUP', 'CREATE', STREAMS[ARGV[1]], ARGV[2], '0', 'MKSTREAM')
if made.err and not string.find(made.err, 'BUSYGROUP', 1, true) then
  return made
end
return made.err and 0 or 1
