#!lua
-- adopt: add pages of one crawl, and the fingerprints of their domains, to a partition that is being filled.
-- Guarantee: entries keep their order and retries, and are counted once. A domain that already exists
--   when it comes for the first time is left out: it was unloaded twice. A full Redis takes nothing.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 packed {c, domains, delayed, lost, is this the last}
--   domain  {name, is this the first of it, pages that count, slab, {fingerprint …} of its own sets, bands
--            {spider, priority, {entry …} …} [, used: see `domain_budgets`, what `host_budgets` notes]}
--   delayed {name, spider, priority, side ('f', 'b'), due in ms of this frontier's clock, entry}
--   lost    {name, id of a chunk that the shelf does not have, its pages}: these pages fail
-- Returns: packed {domain …}: domains that were left out
-- Cost: as the children of a settle, without the dedupe check.
--- include: clock
--- include: views
--- include: ledger
--- include: throttle
--- include: bands
--- include: dedupe
--- include: admit

local c, domains, delayed, lost, is_last = unpack(cmsgpack.unpack(ARGV[1]))
local names, left_out = {}, {}
for i = 1, #domains do
  names[i] = domains[i][1]
end
for i = 1, #delayed do
  names[#names + 1] = delayed[i][1]
end
local records = #names > 0 and load_domain_records(c, names) or {}
caps_on_queues()

local function is_there(record)
  return record.counted > 0 or record.slab ~= NO_SLAB or record.own > 0 or record.bands ~= ''
end

local function adopt(domain, is_first, counted, slab, own, bands)
  local record = records[domain]
  if is_first and is_there(record) then
    left_out[#left_out + 1] = domain
    return
  end
  record.counted = record.counted + counted
  count(c, 'counted', counted)
  if slab > 0 then
    record.slab = int(slab)
  end
  if #own > 0 then
    mark_own(c, domain, record, own, 1, #own)
  end
  for i = 1, #bands, 3 do
    local entries = bands[i + 2]
    enqueue({ c = c, kind = kind_of(c, bands[i], bands[i + 1]) }, domain, record, entries, 1, #entries)
    count(c, 'admitted', #entries)
    count(c, 'queued', #entries)
  end
  changed_of(c)[domain] = record
end

local function keep_back(domain, S, priority, side, due, entry)
  local kind = note_band(c, records[domain], kind_of(c, S, priority))
  changed_of(c)[domain] = records[domain]
  delays.add(kind.spider, domain, kind.tag, entry, due, side == 'f')
  count(c, 'admitted', 1)
  count(c, 'delayed', 1)
end

for i = 1, #domains do
  local record, used, host = records[domains[i][1]], domains[i][7], domains[i][8] or ''
  adopt(unpack(domains[i], 1, 6))
  if host ~= '' and not string.find(record.bands, '^%x') then
    record.bands = host .. record.bands
    host_budgets().note_crawl(c)
  end
  if used and used ~= '' and redis.call('HEXISTS', K.used(c), domains[i][1]) == 0 then
    local bytes, done, failed, budget = string.match(used, '^(%d+) (%d+) (%d+) ?(%S*)$')
    add_used(c, { [domains[i][1]] = { bytes, done, failed, 0, 0, budget ~= '' and budget or nil } })
  end
end
for i = 1, #delayed do
  keep_back(unpack(delayed[i]))
end
for i = 1, #lost do
  local domain, id, pages = unpack(lost[i])
  count(c, 'admitted', pages)
  count(c, 'failed', pages)
  count(c, 'f:shelf_lost', pages)
  owe('shelf_lost', c, { reason = 'shelf_lost', spill = id, links = pages, domain = domain })
end
touched[c] = is_last or nil
save_domain_records()
finish()
return cmsgpack.pack(left_out)
