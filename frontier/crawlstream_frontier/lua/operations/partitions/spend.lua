#!lua flags=allow-oom
-- spend: end runs that have spent a budget in all partitions together, and return the open runs that have budgets.
-- Guarantee: safe to repeat. A run that ends here takes no seed from then on, and is answered by `overdue` until Kafka
--   has its end. Nothing ends while the frontier moves.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 packed {spent}
--   spent   {{name, generation, run, budget} …}
-- Returns: packed {'OK', life, runs}, or {'RESTORE', life}
--   run     {name, generation, number, run, max_bytes|0, max_failed_share|0}
-- Cost: one command per run, two more if it ends.
--- include: clock
--- include: ledger
--- include: registry

local spent = unpack(cmsgpack.unpack(ARGV[1]))
local is_ready = is_restored()

local function spend(name, generation, run, budget)
  local crawl = registered(name)
  if crawl.is_open and not crawl.lapsed and crawl.g == generation and crawl.run == run then
    local _, place_in_time = unpack(crawl.expires or {})
    crawl.expires = { math.floor(trusted(wall) / 1000), place_in_time or { 0, 0, 0 } }
    crawl.lapsed, crawl.budget, changed_crawls[name] = 'expired', budget, crawl
  end
end

if is_ready and redis.call('HEXISTS', K.meta, 'moving') == 0 then
  for _, each in ipairs(spent) do
    spend(unpack(each))
  end
  save_registry()
end
local runs = {}
for _, name in ipairs(is_ready and redis.call('SMEMBERS', K.budgeted) or {}) do
  local crawl = registered(name)
  local _, max_bytes, share = unpack(crawl.budgets and crawl.budgets[1] or { 0, 0, 0 })
  if crawl.is_open and not crawl.lapsed and (max_bytes > 0 or share > 0) then
    runs[#runs + 1] = { name, crawl.g, crawl.number, crawl.run, max_bytes, share }
  end
end
save_clock()
return cmsgpack.pack(is_ready and { 'OK', life, runs } or { 'RESTORE', life })
