#!lua flags=allow-oom
-- lapse: Kafka has that the clock of a home ends a generation of a crawl.
-- Guarantee: safe to repeat: only what `overdue` or `enroll` has said in this life of the home is done, and only while
--   the generation is the present one, and the frontier is not being moved. All partitions are to be told.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 packed {name, generation that begins, life in which it was said}
-- Returns: 1 if it has ended now, else 0.
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
  redis.call('UNLINK', K.home_profiles(name))  -- Those of the next one come with its seeds.
  save_registry()
end
save_clock()
return is_meant and 1 or 0
