-- Contexts of a partition: created, labelled by their coordinator, closed.
-- Guarantee: a partition has at most one open context per crawl, of one generation; a page of a later generation
--   ends it, because generations only follow each other. Late pages of an earlier one are ignored.
-- `names` has "<c> <generation> <does it take anything>" here: runs belong to the coordinator.
-- `closed` HASH "<name> <generation>" -> c of contexts that are over, as long as their ledgers are kept.
-- Needs: clock, ledger, crawls, steer. Cost: three commands for a new context.
-- Close the context of a name: its queued pages leave the ledger at once, and are swept in steps. The coordinator
-- publishes its ending.
local function close_context(name)
  local record = load_name(name)
  redis.call('HSET', K.closed, name .. ' ' .. int(record.run), record.c)
  redis.call('HSET', K.ledger(record.c), 'told', '1')
  close_run(name, 'stopping')
  local limbo_key = K.limbo(record.c)
  local waiting = redis.call('LLEN', limbo_key)
  count(record.c, 'limbo', -waiting)
  count(record.c, 'z:ended_run', waiting)
  redis.call('UNLINK', limbo_key, K.limbo_marks(record.c), K.limbo_domains(record.c), K.credit(record.c))
end

-- Count a closed context as expired, as its coordinator reports: a page of a later generation may have closed it.
local function note_expired(c)
  local key, states = K.ledger(c), { stopping = 'expiring', stopped = 'expired' }
  local x = redis.call('HMGET', key, 'state', STOPPED)
  if x[1] and states[x[1]] then
    redis.call('HSET', key, 'state', states[x[1]])
    crawl_cache[c] = nil
  end
  if x[2] then
    redis.call('HINCRBY', key, 'expired', x[2])
    redis.call('HDEL', key, STOPPED)
  end
end

-- Return the context of a generation, created if there is none; nil if the generation is over.
local function context_for(name, generation)
  local record = load_name(name) or { run = -1 }
  if record.run > generation or record.run == generation and not record.live then
    return nil
  elseif record.run == generation then
    return record.c
  elseif record.live then
    close_context(name)
  end
  record.c, record.run, record.live = int(redis.call('HINCRBY', K.meta, 'crawls', 1)), generation, true
  save_name(name, record)
  redis.call('HSET', K.ledger(record.c), 'name', name, 'run', '0', 'state', 'running', 'started', int(wall),
    'active', int(wall), 'label', int(generation) .. ' 0 0 0 0 0 ' .. int(now) .. ' 0 0')
  redis.call('HINCRBY', K.totals, 'running', 1)
  return record.c
end

-- Note a version of the registry that a page or the coordinator names: a label from an earlier one is outdated.
local function raise_hint(c, version_life, version_number)
  local context = crawl_of(c).context
  if standings().is_before(context.hint_life, context.hint_number, version_life, version_number) then
    if not standings().is_unconfirmed(context) then
      context.since = now
    end
    context.hint_life, context.hint_number = version_life, version_number
    standings().save(c)
  end
end

-- Return the questions of some contexts whose coordinators must confirm them.
local function unconfirmed_of(contexts)
  local found = {}
  for c in pairs(contexts) do
    local context = crawl_of(c).context
    found[c] = context and (context.is_short or standings().is_unconfirmed(context)) or nil
  end
  return home_waits().questions(found)
end

-- Drop the final counters of a context's last run, kept until another run opens: `kept` is its number, `kept:<field>`
-- are its counters. Queries return them, and a coordinator that goes back to before the ending requests them again.
local function drop_kept(c)
  for _, field in ipairs(redis.call('HKEYS', K.ledger(c))) do
    if string.find(field, '^kept') then
      redis.call('HDEL', K.ledger(c), field)
    end
  end
end

local OVER = { done = true, failed = true, redirected = true, skipped = true, stopped = true, expired = true,
  bytes = true, families = true }

-- Move the counters of an ended run to `kept`; its remaining entries wait for the next run, and count there.
local function drop_counters(c, run)
  local key = K.ledger(c)
  if tonumber(redis.call('HGET', key, 'kept') or -1) ~= run then
    drop_kept(c)
    redis.call('HSET', key, 'kept', int(run))
  end
  local ledger = redis.call('HGETALL', key)
  for i = 1, #ledger, 2 do
    local field = ledger[i]
    if OVER[field] or string.find(field, '^[bnfkzpdrw]:') then
      redis.call('HINCRBY', key, 'kept:' .. field, ledger[i + 1])
      redis.call('HDEL', key, field)
    end
  end
  local left = redis.call('HMGET', key, 'queued', 'delayed', 'held')
  redis.call('HDEL', key, 'top', 'occasion')
  if crawl_of(c).used then
    redis.call('UNLINK', K.used(c))
    redis.call('HINCRBY', key, 'recovered', -crawl_of(c).used)
    crawl_of(c).used = nil
  end
  redis.call('HSET', key, 'admitted', int(tonumber(left[1] or 0) + tonumber(left[2] or 0) + tonumber(left[3] or 0)))
end

-- Set the run that a context works for (0: none is open), as of a version of its coordinator's registry. `is_sure`:
-- confirmed until a newer version is known.
local function relabel(c, version_life, version_number, run, is_sure)
  local crawl = crawl_of(c)
  local context, former = crawl.context, tonumber(crawl.run)
  if former ~= run and former > 0 then
    drop_counters(c, former)
    forget_steering(c)
  end
  if run > 0 and redis.call('HGET', K.ledger(c), 'kept') ~= int(run) then
    drop_kept(c)
  end
  local must_revisit = run > 0 and (former == 0 or context.dropped)
  crawl.run = int(run)
  redis.call('HSET', K.ledger(c), 'run', crawl.run)
  context.known_life, context.known_number = version_life, version_number
  context.confirmed = is_sure and life or 0
  if run > 0 then
    context.dropped = false
  end
  standings().save(c)
  if must_revisit and tonumber(redis.call('HGET', K.ledger(c), 'queued') or 0) > 0 then
    revisit_soon(c)
  end
end
