#!lua flags=allow-oom
-- lapse: end a generation of a crawl whose time is over, after Kafka has the record of it.
-- Guarantee: safe to repeat: ends only what `overdue` or `enroll` has answered in this epoch of the coordinator, and
--   only while the generation is the present one, and the frontier is not being moved. All partitions are notified.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 packed {name, generation that begins, life in which the end was answered}
-- Returns: 1 if it has ended with this call, else 0.
-- Cost: six commands, and one a partition.
--- include: clock
--- include: ledger
--- include: registry

local name, generation, said_in = unpack(cmsgpack.unpack(ARGV[1]))
local crawl = registered(name)
local is_meant = crawl.lapsed and crawl.g + 1 == generation and said_in == life and is_restored()
  and redis.call('HEXISTS', K.meta, 'moving') == 0
if is_meant then
  end_generations(name, crawl, generation, crawl.lapsed)
  redis.call('UNLINK', K.home_profiles(name))  -- Seeds bring the profiles of the next generation.
  save_registry()
end
save_clock()
return is_meant and 1 or 0
