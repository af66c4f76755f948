#!lua flags=allow-oom
-- beat: move the deadline of a living worker.
-- Guarantee: a worker that was reaped in the meantime comes back without its leases.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 worker, 2 deadline_ms from now.
-- Returns: life.
-- Cost: five commands.
--- include: clock
redis.call('ZADD', K.workers, int(now + tonumber(ARGV[2])), ARGV[1])
save_clock()
return life
