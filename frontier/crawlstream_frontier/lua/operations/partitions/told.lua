#!lua flags=allow-oom
-- told: record which label changes partitions have confirmed, with their counts of stopped and expired runs.
-- Guarantee: safe to repeat: each confirmation counts once. When all partitions have answered, the client of the
--   stop gets the number of removed pages; when none has a page in flight any more, the ending becomes pending for
--   publication, with the ledgers of all. Until then the change is kept.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 packed {answers}
--   answer  {key of the change, pages that were removed, is nothing in flight, ledger {field, value …}}
-- Returns: packed {'OK', number of changes that are done}, or {'RESTORE', life}
-- Cost: about four commands per change.
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

-- Add the numeric fields of a ledger to the sums.
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

-- Answer the stop: all partitions have reported how many pages they removed.
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

-- Record a partition's answer about a run that was stopped or has expired.
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
      life = life, fields = flat(closing.fields), budget = closing.budget,
      positions = redis.call('HGETALL', K.enrolled),
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
