#!lua flags=allow-oom
-- quiet: return open runs of a coordinator without a recent seed; the caller looks whether they are over.
-- Guarantee: changes nothing. Leaves out runs whose predecessor's ending is not in Kafka yet, and
--   runs whose time is over.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 grace_ms, 2 number of runs to skip, 3 at most
-- Returns: packed {'OK', life, runs, their total number}, or {'RESTORE', life}
--   run     {name, generation, number, run, seeds {place, offset …}}: seeds end before these offsets
-- Cost: one command per run.
--- include: clock
--- include: ledger
--- include: registry

local names = redis.call('ZRANGE', K.open, '-inf', int(now - ARGV[1]), 'BYSCORE', 'LIMIT', ARGV[2], ARGV[3])
local runs = {}
for _, name in ipairs(names) do
  local crawl, seeds = registered(name), {}
  for place, offset in pairs(crawl.seeds) do
    seeds[#seeds + 1], seeds[#seeds + 2] = place, offset
  end
  if crawl.is_published and not crawl.lapsed then
    runs[#runs + 1] = { name, crawl.g, crawl.number, crawl.run, seeds }
  end
end
local is_ready = is_restored()
save_clock()
return cmsgpack.pack(is_ready and { 'OK', life, runs, #names } or { 'RESTORE', life })
