#!lua flags=allow-oom
-- look: return the state of contexts in a partition, to find out whether their runs are over.
-- Guarantee: changes nothing; the whole answer is of one moment.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 packed {{name, generation …}}
-- Returns: packed {life, positions {place, offset …}, reports, late {"<place> <coordinator>", offset …}}
--   report  {is it idle, may it be leased from, need {partition, offset …}, run of its ledger|0, ledger
--           {field, value …}, does anything wait for credits}
-- Cost: four commands per context.
--- include: clock
--- include: views
--- include: ledger
--- include: throttle
--- include: bands
--- include: crawls

local contexts = unpack(cmsgpack.unpack(ARGV[1]))

local function report_of(name, generation)
  local record = load_name(name)
  if not record or record.run ~= generation then
    return { true, false, {}, 0, {}, false }
  end
  local ledger, left = redis.call('HGETALL', K.ledger(record.c)), 0
  for i = 1, #ledger, 2 do
    if ledger[i] == 'queued' or ledger[i] == 'delayed' or ledger[i] == 'held' then
      left = left + ledger[i + 1]
    end
  end
  local is_short = redis.call('EXISTS', K.limbo(record.c)) == 1
  return { left == 0 and not is_short, record.live and may_lease(record.c), redis.call('HGETALL', K.need(record.c)),
    tonumber(crawl_of(record.c).run), ledger, is_short }
end

local reports = {}
for i = 1, #contexts, 2 do
  reports[#reports + 1] = report_of(contexts[i], contexts[i + 1])
end
save_clock()
return cmsgpack.pack({ life, redis.call('HGETALL', K.positions), reports, redis.call('HGETALL', K.late) })
