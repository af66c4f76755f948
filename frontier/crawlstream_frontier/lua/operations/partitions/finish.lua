#!lua flags=allow-oom
-- finish: finish a run that is idle in all partitions.
-- Guarantee: compare and set: a no-op if the registry of the crawl has changed since the partitions were read, the
--   epoch of the coordinator has changed, or the frontier is being moved. The same script notes that the ending must be
--   published and sent to all partitions. Later seeds of the run belong to an ended run. A run whose time
--   is over expires instead.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 packed {name, generation, life of its version, number of its version, ledger {field, value …} of all
--   partitions together}
-- Returns: 1 if the run has ended with this call, else 0.
-- Cost: five commands, and one a partition.
--- include: clock
--- include: ledger
--- include: crawls
--- include: registry

local name, generation, version_life, version_number, fields = unpack(cmsgpack.unpack(ARGV[1]))
local crawl = registered(name)
local is_same = crawl.is_open and not crawl.lapsed and crawl.g == generation and crawl.number == version_number
  and version_life == life and is_restored() and redis.call('HEXISTS', K.meta, 'moving') == 0
if is_same then
  local covered = {}
  fields[#fields + 1], fields[#fields + 2] = 'started', int(crawl.started or 0)
  for place, offset in pairs(crawl.seeds) do
    cover(crawl, place, offset)
    covered[#covered + 1], covered[#covered + 2] = place, int(offset)
  end
  close(name, crawl)
  crawl.is_published, crawl.owed, crawl.ending = false, crawl.run, 'finished'
  tell_all(name, crawl, generation, 'ended')
  owe('crawl_finished', nil, { name = name, run = crawl.run, generation = generation, life = life, fields = fields,
    positions = covered, remember = crawl.remember and crawl.remember[1], occasion = crawl.occasion,
    seen = seen_of(crawl.occasion) })
  save_registry()
end
save_clock()
return is_same and 1 or 0
