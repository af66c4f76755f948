#!lua flags=allow-oom
-- group: create a stream and its consumer group unless they exist.
-- Guarantee: works in a full Redis, which would refuse both from a client: the processes that empty it must be
--   able to start. The group reads from the stream's beginning.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 name of the stream, below the prefix, 2 name of the group.
-- Returns: 1 if this call created it, 0 if it existed.
-- Cost: one command.
--- include: present
local STREAMS = { outbox = K.outbox, actions = K.actions }
local made = redis.pcall('XGROUP', 'CREATE', STREAMS[ARGV[1]], ARGV[2], '0', 'MKSTREAM')
if made.err and not string.find(made.err, 'BUSYGROUP', 1, true) then
  return made
end
return made.err and 0 or 1
