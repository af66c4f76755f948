-- Leases (`holds`): entries that a worker processes, and their return.
-- Guarantee: every operation that ends a lease finds it by (worker, token) and removes it in the same
--   script; an unknown token changes nothing. A lease that ends without a reported send counts as
--   sent now: allowances are never refunded.
-- `h:<worker>` HASH token -> hold: since, flags, tag, view, and domain with its gate (see `gates`), packed, then the
--   entry; `!` ->
--   number of the last granting call; `@` -> the view under whose name the worker sleeps.
--   flags: 0 granted, 1 sent, 2 response received, 3 spare: leased without a grant, so that nothing may be sent.
-- Entry: profile number, ',' and the body; a returned one has ';' and three characters instead of
--   the comma: retries, deaths, reaps, each '!' + n.
-- Needs: clock, ledger, views, throttle, bands, dedupe, admit. `flush_holds` must follow the last change.
local ZERO, MOST_MARKS, MARKED, MARKS = 33, 90, ';', 3
local SPARE = 3

-- Return the retries, deaths and reaps of an entry.
local function marks_of(entry)
  local _, at = string.find(entry, '^%d+' .. MARKED)
  if not at then
    return 0, 0, 0
  end
  local retries, deaths, reaps = string.byte(entry, at + 1, at + MARKS)
  return retries - ZERO, deaths - ZERO, reaps - ZERO
end

local function with_marks(entry, retries, deaths, reaps)
  local number, separator = string.match(entry, '^(%d+)(.)')
  local body = #number + 2 + (separator == MARKED and MARKS or 0)
  return number .. MARKED .. string.char(ZERO + math.min(retries, MOST_MARKS),
    ZERO + math.min(deaths, MOST_MARKS), ZERO + math.min(reaps, MOST_MARKS)) .. string.sub(entry, body)
end

local HOLD, HOLD_HEAD, FLAGS_AT = '<dBHc0Hc0Hc0', '<dBHc0Hc0', 9

-- Return the packed head of new leases. Strings are expensive in Lua: shared ones are made once.
local function hold_head(since, lot, flags)
  return struct.pack(HOLD_HEAD, since, flags, #lot.tag, lot.tag, #lot.view, lot.view)
end

local sizes = {}

-- Return a new lease without its entry.
local function hold_beginning(head, domain)
  local size = sizes[#domain]
  if not size then
    size = struct.pack('<H', #domain)
    sizes[#domain] = size
  end
  return head .. size .. domain
end

-- Unpack a lease into a table; `join_throttle` adds the throttle state of its domain. Most leases end without
-- a look at their entry: `entry_of` unpacks it.
local function parse_hold(token, packed)
  local since, flags, tag, V, domain = struct.unpack(HOLD, packed)
  local hold = { token = token, since = since, flags = flags, lot = lot_of(V, tag), domain = domain,
    packed = packed }
  local at = gates and string.find(domain, '=', 1, true)
  if at then
    gates.inside().note_used(hold, at)
  end
  return hold
end

local function entry_of(hold)
  return string.sub(hold.packed, (select(6, struct.unpack(HOLD, hold.packed))))
end

local function with_flags(packed, flags)
  return string.sub(packed, 1, FLAGS_AT - 1) .. string.char(flags) .. string.sub(packed, FLAGS_AT + 1)
end

-- Load a worker's leases with these tokens, as a list and by token: one HMGET. Unknown
-- tokens are collected in `stale`.
local function load_holds(worker, tokens, holds, stale)
  if #tokens == 0 then
    return
  end
  local texts, n = redis.call('HMGET', K.holds(worker), unpack(tokens)), #holds
  for i = 1, #tokens do
    local token, text = tokens[i], texts[i]
    if not text then
      stale[#stale + 1] = token
    elseif not holds[token] then
      local hold = parse_hold(token, text)
      n = n + 1
      holds[n], holds[token] = hold, hold
    end
  end
end

local function is_newer(a, b)
  return a.call > b.call or (a.call == b.call and a.place > b.place)
end

-- Return all leases of a worker, the latest grant first, so that putting each in front restores their order.
local function all_holds(worker)
  local all, holds = redis.call('HGETALL', K.holds(worker)), {}
  for i = 1, #all, 2 do
    local call, place = string.match(all[i], '^(%d+)-(%d+)$')
    if call then
      local hold = parse_hold(all[i], all[i + 1])
      hold.call, hold.place, hold.entry = tonumber(call), tonumber(place), entry_of(hold)
      holds[#holds + 1] = hold
    end
  end
  table.sort(holds, is_newer)
  return holds
end

-- Add the throttle states of their domains to leases of one worker, and the rules to these states.
-- Neighbours are mostly of one turn, and so of one domain.
local function join_throttle(holds)
  local domains, n = {}, 0
  for i = 1, #holds do
    local domain = holds[i].domain
    if domain ~= domains[n] then
      n = n + 1
      domains[n] = domain
    end
  end
  if n == 0 then
    return
  end
  local states = load_states(keys_of(holds[1].lot.view, domains))
  join_rules(domains, states)
  n = 1
  for i = 1, #holds do
    local hold = holds[i]
    if hold.domain ~= domains[n] then
      n = n + 1
    end
    hold.state = states[n]
  end
  if gates and gates.used then
    gates.inside().join()
  end
end

local ended, changed, moved, is_seen = {}, {}, {}, {}

-- Note that a lease's change may allow an earlier request to its domain or gate, unless one is allowed already.
local function note_change(hold)
  local state = hold.state
  if not is_seen[state] then
    is_seen[state] = true
    if allowance(state, 1) == 0 then
      moved[#moved + 1] = hold
    end
  end
  if hold.gate then
    note_change(hold.gate)
  end
end

local function note_sent(hold, sent_ms)
  if hold.flags == 0 then
    note_change(hold)
    report_request(hold.state, true, hold.since + sent_ms)
    if hold.gate then
      report_request(hold.gate.state, true, hold.since + sent_ms)
    end
    hold.flags = 1
    changed[hold.token] = hold
  end
end

-- Note a received response: the lease no longer counts against the domain's concurrency.
local function note_received(hold)
  if hold.flags < 2 then
    note_change(hold)
    hold.flags = 2
    report_request(hold.state, false, nil, true)
    if hold.gate then
      report_request(hold.gate.state, false, nil, true)
    end
    changed[hold.token] = hold
  end
end

-- End a lease's part in the throttle and take it from its worker; the caller handles the entry. Without a
-- report, its request counts as sent now, unless it is certain that it `is_unsent`.
local function end_hold(hold, sent_ms, is_unsent)
  local lot, state, gate, flags = hold.lot, hold.state, hold.gate, hold.flags
  if flags < 2 then
    if not is_seen[state] or gate and not is_seen[gate.state] then
      note_change(hold)
    end
    local at = not is_unsent and (sent_ms and hold.since + sent_ms or now)
    report_request(state, flags == 0, at, true)
    if gate then
      report_request(gate.state, flags == 0, at, true)
    end
  end
  if flags > 0 then
    changed[hold.token] = nil
  end
  ended[#ended + 1] = hold.token
  lot.ended = lot.ended + 1
end

-- Count the ended leases, write the changed ones, and move the next grant of their
-- domains if these wait for it.
local function flush_holds(worker)
  for _, lot in ipairs(lots) do
    if lot.ended > 0 then
      count(lot.c, 'held', -lot.ended)
      touched[lot.c], lot.ended = true, 0
    end
  end
  if #ended > 0 then
    redis.call('HDEL', K.holds(worker), unpack(ended))
  end
  local texts = {}
  for token, hold in pairs(changed) do
    texts[#texts + 1] = token
    texts[#texts + 1] = with_flags(hold.packed, hold.flags)
  end
  if #texts > 0 then
    redis.call('HSET', K.holds(worker), unpack(texts))
  end
  local due = {}
  for i = 1, #moved do
    local hold = moved[i]
    if hold.state.rule.hits > 0 then
      local allowed, later = allowance(hold.state, 1)
      local V = hold.lot.view
      local args = due[V] or {}
      local n = #args
      args[n + 1], args[n + 2], due[V] = int(allowed > 0 and now or later), hold.domain, args
    end
  end
  for V, args in pairs(due) do
    redis.call('ZADD', K.waiting(V), 'XX', unpack(args))
  end
  ended, changed, moved, is_seen = {}, {}, {}, {}
end

-- Return the entry of an ended lease: to the front of its band or to its end, at once or later.
-- A run that is being stopped takes nothing back: the entry counts as stopped (or expired).
local function put_back(hold, entry, priority, in_front, delay_ms)
  local lot = hold.lot
  local c, S, state = lot.c, hold.spider or lot.spider, crawl_of(lot.c).state
  if hold.located and gates then
    gates.inside().changes().locate(hold.domain, hold.located)
  end
  if state ~= 'running' then
    count(c, state == 'expiring' and 'expired' or 'stopped', 1)
    return
  end
  local tag = c .. '/' .. int(priority)
  if tag ~= lot.tag or S ~= lot.spider or hold.is_moved then
    local kind = note_band_at(c, hold.domain, S, priority)
    tag, priority = kind.tag, kind.priority
  end
  if delay_ms > 0 then
    count(c, 'delayed', 1)
    delays.add(S, hold.domain, tag, entry, now + delay_ms, in_front)
  else
    count(c, 'queued', 1)
    push(S, hold.domain, tag, priority, { entry }, in_front)
  end
end

-- Remove a worker without leases.
local function forget_worker(worker)
  local V = redis.call('HGET', K.holds(worker), '@')
  if V then
    redis.call('ZREM', K.asleep(V), worker)
  end
  redis.call('DEL', K.holds(worker), K.recalled(worker))
  redis.call('ZREM', K.workers, worker)
end
