#!lua flags=allow-oom
-- told: partitions have heard what a home had to tell them, and what they have answered of runs that were
--   stopped.
-- Guarantee: safe to repeat: each tell counts once. When all partitions have answered, the client of the stop
--   gets how many pages were removed; when none has a page in flight any more, the ending is owed to the world,
--   with the ledgers of all. Until then a tell stays.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 packed {answers}
--   answer  {name of the tell, pages that were removed, is nothing in flight, ledger {field, value …}}
-- Returns: packed {'OK', tells that are done}, or {'RESTORE', life}
-- Cost: about four commands a tell.
--- include: clock
--- include: ledger
--- include: crawls
--- include: registry
--- include: kept

local answers = unpack(cmsgpack.unpack(ARGV[1]))
if not is_restored() then
  save_clock()
  return cmsgpack.pack({ 'RESTORE', life })
end

-- Sums by field, of what is a number.
local function add(sums, ledger, run)
  for field, value in pairs(with_kept(ledger, run)) do
    sums[field] = tonumber(value) and (sums[field] or 0) + value
  end
end

local function flat(sums)
  local fields = {}
  for field, value in pairs(sums) do
    fields[#fields + 1], fields[#fields + 2] = field, int(value)
  end
  return fields
end

-- All partitions have said how many pages waited there.
local function reply(closing)
  local purged = 0
  for _, pages in pairs(closing.purged) do
    purged = purged + pages
  end
  if closing.request ~= '' then
    redis.call('XADD', K.actions, '*', 'name', 'stop', 'request', closing.request, 'purged', int(purged), 'run',
      int(closing.run))
  end
  closing.request = nil
end

-- Take note of what a partition says of a run that was stopped, or has expired.
local function note(name, generation, partition, purged, is_drained, ledger)
  local field, partitions = name .. ' ' .. generation, amount_of_partitions()
  local packed = redis.call('HGET', K.closing, field)
  if not packed then
    return
  end
  local closing = cmsgpack.unpack(packed)
  closing.purged[partition] = closing.purged[partition] or purged
  if closing.request and is_answered(closing) then
    reply(closing)
  end
  if is_drained then
    closing.drained = closing.drained + 1
    add(closing.fields, ledger, closing.run)
  end
  if closing.drained < partitions then
    redis.call('HSET', K.closing, field, cmsgpack.pack(closing))
  else
    redis.call('HDEL', K.closing, field)
    closing.fields.started = closing.started
    owe('crawl_' .. closing.how, nil, { name = name, run = closing.run, generation = tonumber(generation),
      life = life, fields = flat(closing.fields), positions = redis.call('HGETALL', K.enrolled),
      occasion = closing.occasion, seen = seen_of(closing.occasion) })
  end
end

local done = 0
for _, answer in ipairs(answers) do
  local tell, purged, is_drained, ledger = unpack(answer)
  local name, generation, partition, what = string.match(tell, '^(%S+) (%d+) %d+ %d+ (%d+) (%a+)$')
  if name and redis.call('SISMEMBER', K.tell, tell) == 1 then
    if what ~= 'changed' and tonumber(generation) < registered(name).g then
      note(name, generation, partition, purged, is_drained, ledger)
    end
    if is_drained then
      redis.call('SREM', K.tell, tell)
      done = done + 1
    end
  end
end
save_clock()
return cmsgpack.pack({ 'OK', done })
