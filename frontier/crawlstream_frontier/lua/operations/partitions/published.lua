#!lua flags=allow-oom
-- published: note that Kafka has the ending of a run, so that partitions may work for the next one.
-- Guarantee: safe to repeat; a pending ending of another run stays pending.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 packed {name, run}
-- Returns: 1 if the ending of this run was pending, else 0.
-- Cost: three commands.
--- include: clock
--- include: ledger
--- include: registry

local name, run = unpack(cmsgpack.unpack(ARGV[1]))
local crawl = registered(name)
local is_owed = crawl.owed == run and is_restored()
if is_owed then
  crawl.is_published, crawl.owed = true, nil
  changed_crawls[name] = crawl
  save_registry()
end
save_clock()
return is_owed and 1 or 0
