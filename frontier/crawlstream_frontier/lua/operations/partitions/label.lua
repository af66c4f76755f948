#!lua flags=allow-oom
-- label: apply labels from coordinators to the contexts of a partition: the run they work for, or that they are over.
-- Guarantee: safe to repeat, in any order: a label older than the known one changes nothing, nor does an answer to a
--   request from another epoch of the partition. A generation without a context gets none.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 packed {life in which the labels were requested|0, labels}; 0: sent by the coordinators without a request,
--   only for something that has ended or changed
--   label   {name, generation, life of its version, number of its version, run or 0, state, paused until|-1,
--            shift, expires_s|0, occasion|'', {hash, bytes …}}; state as of `labels`, or changed: request the
--            label from the coordinator
-- Returns: packed {labels that took effect, reports}
--   report  {pages that were removed, is nothing in flight, ledger {field, value …}} per label with state
--           dead or expired, in their order
-- Cost: about four commands per label.
--- include: clock
--- include: views
--- include: ledger
--- include: throttle
--- include: bands
--- include: crawls
--- include: steer
--- include: contexts
--- include: profiles

local asked_in, labels = unpack(cmsgpack.unpack(ARGV[1]))
local applied, reports = 0, {}

-- Apply the run's pause and priority shift, which may be older than this partition's context.
local function steer_context(c, paused_until, shift)
  local is_paused = crawl_of(c).paused
  if paused_until >= 0 then
    steer.pause(c, paused_until)
  elseif is_paused then
    steer.resume(c)
  end
  if shift ~= shift_of(c) then
    redis.call('HSET', K.shifts, c, int(shift))
    shifts = nil
    revisit_soon(c)
  end
end

-- Store the run's other settings, for queries and for its pages.
local function describe(c, expires, occasion)
  local crawl = crawl_of(c)
  if is_late(crawl) then
    revisit_soon(c)  -- Its bands may have left the index, and it may have more time now.
  end
  crawl.expires = expires
  redis.call('HDEL', K.ledger(c), 'expires', 'occasion')
  if expires > 0 then
    redis.call('HSET', K.ledger(c), 'expires', int(expires))
  end
  if occasion ~= '' then
    redis.call('HSET', K.ledger(c), 'occasion', occasion)
  end
end

local function hear(c, label)
  local _, _, version_life, version_number, run, state, paused_until, shift, expires, occasion, profiles = unpack(label)
  local context = crawl_of(c).context
  for i = 1, #profiles, 2 do
    provide(c, profiles[i], profiles[i + 1])
  end
  if state == 'changed' then
    return raise_hint(c, version_life, version_number)
  elseif standings().is_before(version_life, version_number, context.known_life, context.known_number) then
    return
  end
  relabel(c, version_life, version_number, run, state ~= 'pending')
  if run > 0 then
    steer_context(c, paused_until, shift)
    describe(c, expires, occasion)
  end
end

-- Return the final counts of an ended context; empty ones if it is gone.
local function report_of(name, generation, how)
  local c = redis.call('HGET', K.closed, name .. ' ' .. int(generation))
  save_ledger()
  if c and how == 'expired' then
    note_expired(c)
  end
  local ledger, stopped, held = c and redis.call('HGETALL', K.ledger(c)) or {}, 0, 0
  for i = 1, #ledger, 2 do
    if ledger[i] == 'stopped' or ledger[i] == 'expired' then
      stopped = stopped + ledger[i + 1]
    elseif ledger[i] == 'held' then
      held = tonumber(ledger[i + 1])
    end
  end
  return { stopped, held == 0, ledger }
end

for _, label in ipairs(labels) do
  local name, generation, state = label[1], label[2], label[6]
  local record, is_over = load_name(name), label[6] == 'dead' or label[6] == 'expired'
  if record and record.live and is_over and record.run <= generation then
    close_context(name)
    applied = applied + 1
  elseif record and record.live and record.run == generation and (asked_in == life or asked_in == 0) then
    hear(record.c, label)
    applied = applied + 1
  end
  if is_over then
    reports[#reports + 1] = report_of(name, generation, state)
  end
end
finish()
return cmsgpack.pack({ applied, reports })
