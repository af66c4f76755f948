#!lua flags=allow-oom
-- restore: give a new Redis, or one restored from an old copy, the offset from which a Kafka partition
--   continues, and the state of the runs that Kafka knows.
-- Guarantee: safe to repeat. An ended run is closed without a second event; a running one continues, or
--   begins again under its number with its next seed, and stays paused, unless it was steered since
--   Redis came back: a late caller does not know of that.
--   Run numbers never go back. No restored run finishes before every named partition has been read
--   again, by any process and at any time (`tend`). Every domain is treated as if its allowance had been
--   used up now, because the requests sent before are unknown.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 packed {topic uuid, kafka partition, offset, until|-1, run_floor,
--   {{name, run, is over, is paused, until when, remember_s|-1} …}, {{kafka partition, until} …}, ttl_ms,
--   is this the last of several calls}
--   offset: where the partition begins if it has no position. until: the offset below which the
--   records were read by a Redis that was lost; -1: none were. The list names all partitions of
--   the topic: each gets a call of its own, with the offset where it begins.
-- Returns: the position from now on; -1 before the last call.
-- Cost: O(runs), at most 200, and O(partitions).
--- include: clock
--- include: views
--- include: ledger
--- include: throttle
--- include: bands
--- include: crawls
--- include: steer

local topic, kafka_partition, offset, until_offset, floor, fates, behind, ttl, is_last =
  unpack(cmsgpack.unpack(ARGV[1]))
local place = topic .. ':' .. int(kafka_partition)

-- End the running run without a second event, and give later runs numbers above those of the past.
local function let_end(name, record, run)
  if record.live and crawl_of(record.c).state == 'running' then
    redis.call('HSET', K.ledger(record.c), 'told', '1')
    close_run(name, 'stopping')
  end
  if record.run < run then
    record.run = run
    save_name(name, record)
  end
end

local function go_on(c, is_paused, until_s)
  if not crawl_of(c).recovered then
    redis.call('HINCRBY', K.ledger(c), 'recovered', 1)
  end
  if was_steered(c) then
    return
  elseif is_paused then
    steer.pause(c, until_s)
  else
    steer.resume(c)
  end
end

local function decide(name, run, is_over, is_paused, until_s, remember)
  local record = load_name(name)
  if record and record.run > run then
    return
  elseif is_over then
    if record then
      let_end(name, record, run)
    end
  elseif record and record.run == run and record.live and crawl_of(record.c).state == 'running' then
    go_on(record.c, is_paused, until_s)
  else
    if record then
      let_end(name, record, run - 1)
    end
    redis.call('HSET', K.lost, name, int(run) .. (is_paused and ' paused ' or ' running ') .. int(until_s)
      .. (remember >= 0 and ' ' .. int(remember) or ''))
  end
end

for _, fate in ipairs(fates) do
  decide(unpack(fate))
end
for _, one in ipairs(behind) do
  local field = topic .. ':' .. int(one[1])
  local known = tonumber(redis.call('HGET', K.behind, field) or 0)
  redis.call('HSET', K.behind, field, int(math.max(known, one[2])))
  redis.call('PEXPIRE', K.behind, int(ttl))
end
local position = -1
if is_last then
  redis.call('HSETNX', K.positions, place, int(offset))
  position = tonumber(redis.call('HGET', K.positions, place))
  if until_offset >= 0 then
    redis.call('HSET', K.lost, '#' .. place, int(until_offset))
  end
end
if until_offset >= 0 then
  local known = tonumber(redis.call('HGET', K.meta, 'run_floor') or 0)
  redis.call('HSET', K.meta, 'run_floor', int(math.max(known, floor)), 'restart', int(now))
  redis.call('PEXPIRE', K.lost, int(ttl))
end
finish()
return position
