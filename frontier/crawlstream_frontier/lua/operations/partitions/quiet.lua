#!lua flags=allow-oom
-- quiet: open runs of a home that have had no seed for a while: whoever asks looks whether they are over.
-- Guarantee: nothing is changed. Runs whose predecessor's ending is not in Kafka yet are not among them, nor
--   those whose time is over.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 grace_ms, 2 how many of them to pass over, 3 at most
-- Returns: packed {'OK', life, runs, how many there were}, or {'RESTORE', life}
--   run     {name, generation, number, run, seeds {place, offset …}}: seeds end before these offsets
-- Cost: one command a run.
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
