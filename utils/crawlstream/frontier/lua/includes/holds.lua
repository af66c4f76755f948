-- Holds: entries in the hands of a worker, and their way back.
-- Guarantee: whatever ends a hold finds it by (worker, token) and removes it in the same script; a
--   token that is not there changes nothing. A hold that ends without a reported send counts as
--   sent now: allowances are never refunded.
-- `h:<worker>` HASH token -> hold: since, flags, tag, spider and domain packed, then the entry; `!` ->
--   number of the last granting call; `@` -> the spider under whose name it sleeps.
--   flags: 0 granted, 1 sent, 2 response received.
-- Entry: profile number, ',' and the body; one that came back has ';' and three characters instead of
--   the comma: retries, deaths, reaps, each '!' + n.
-- Needs: clock, ledger, throttle, bands, dedupe, admit. `flush_holds` must follow the last change.
local ZERO, MOST_MARKS, MARKED, MARKS = 33, 90, ';', 3

-- Retries, deaths and reaps of an entry.
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

-- The packed beginning of new holds. Strings are dear in Lua: what many have in common is made once.
local function hold_head(since, tag, S)
  return struct.pack(HOLD_HEAD, since, 0, #tag, tag, #S, S)
end

local sizes = {}

local function pack_hold(head, domain, entry)
  local size = sizes[#domain]
  if not size then
    size = struct.pack('<H', #domain)
    sizes[#domain] = size
  end
  return head .. size .. domain .. entry
end

-- A hold as a table. Most end without anybody looking at their entry: `entry_of` unpacks it.
local function parse_hold(token, packed)
  local since, flags, tag, S, domain, rest = struct.unpack(HOLD, packed)
  local c, priority = split_tag(tag)
  return { token = token, since = since, flags = flags, tag = tag, c = c, priority = priority,
    spider = S, domain = domain, packed = packed, rest = rest }
end

local function entry_of(hold)
  return string.sub(hold.packed, hold.rest)
end

local function with_flags(packed, flags)
  return string.sub(packed, 1, FLAGS_AT - 1) .. string.char(flags) .. string.sub(packed, FLAGS_AT + 1)
end

-- The holds of a worker by token: one HMGET; unknown tokens are collected in `stale`.
local function load_holds(worker, tokens, stale)
  local holds = {}
  if #tokens == 0 then
    return holds
  end
  local texts = redis.call('HMGET', P .. 'h:' .. worker, unpack(tokens))
  for i = 1, #tokens do
    if texts[i] then
      holds[tokens[i]] = parse_hold(tokens[i], texts[i])
    else
      stale[#stale + 1] = tokens[i]
    end
  end
  return holds
end

local function is_newer(a, b)
  return a.call > b.call or (a.call == b.call and a.place > b.place)
end

-- All holds of a worker, the latest grant first, so that putting each in front restores their order.
local function all_holds(worker)
  local all, holds = redis.call('HGETALL', P .. 'h:' .. worker), {}
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

-- Rules of the domains of some holds, by domain; their throttle states are loaded too.
local function throttle_of(holds)
  local domains, found = {}, {}
  for _, hold in pairs(holds) do
    if not found[hold.domain] then
      found[hold.domain] = true
      domains[#domains + 1] = hold.domain
    end
  end
  if #domains > 0 then
    load_states(domains)
    local list = rules_of(domains)
    for i = 1, #domains do
      found[domains[i]] = list[i]
    end
  end
  return found
end

local ended, changed, moved = {}, {}, {}

-- What happens to a hold may let its domain be asked earlier, unless it may be asked already.
local function note_change(hold, state, rule)
  if not moved[hold.domain] and allowance(state, rule) == 0 then
    moved[hold.domain] = hold
  end
end

-- Note on the throttle state what is known about the sending of a hold.
local function note_sent(hold, state, rule, sent_ms)
  if hold.flags == 0 then
    note_change(hold, state, rule)
    local at = sent_ms and math.min(now, hold.since + sent_ms) or now
    report_send(hold.domain, state, rule, at)
    hold.flags = 1
    changed[hold.token] = hold
  end
end

-- The response is there: the hold no longer counts against the domain's concurrency.
local function note_received(hold, state, rule)
  if hold.flags < 2 then
    note_change(hold, state, rule)
    hold.flags = 2
    end_request(hold.domain, state)
    changed[hold.token] = hold
  end
end

-- End a hold's part in the throttle and take it from its worker; the entry is the caller's.
local function end_hold(hold, state, rule, sent_ms)
  note_sent(hold, state, rule, sent_ms)
  note_received(hold, state, rule)
  ended[#ended + 1] = hold.token
  changed[hold.token] = nil
  count(hold.c, 'held', -1)
  touched[hold.c] = true
end

-- Write what became of holds, and move the next grant of their domains where these wait for it.
local function flush_holds(worker, rules)
  if #ended > 0 then
    redis.call('HDEL', P .. 'h:' .. worker, unpack(ended))
  end
  local texts = {}
  for token, hold in pairs(changed) do
    texts[#texts + 1] = token
    texts[#texts + 1] = with_flags(hold.packed, hold.flags)
  end
  if #texts > 0 then
    redis.call('HSET', P .. 'h:' .. worker, unpack(texts))
  end
  local due = {}
  for domain, hold in pairs(moved) do
    if rules[domain].hits > 0 then
      local S = hold.spider
      local allowed, later = allowance(state_cache[domain], rules[domain])
      due[S] = due[S] or {}
      table.insert(due[S], int(allowed > 0 and now or later))
      table.insert(due[S], domain)
    end
  end
  for S, args in pairs(due) do
    redis.call('ZADD', P .. 'w:' .. S, 'XX', unpack(args))
  end
  ended, changed, moved = {}, {}, {}
end

-- Put back the entry of an ended hold: to the front of its band or behind its own, at once or later.
-- A run that is being stopped takes nothing back: the entry counts as stopped (or expired).
local function put_back(hold, entry, priority, in_front, delay_ms)
  local state = crawl_of(hold.c).state
  if state ~= 'running' then
    count(hold.c, state == 'expiring' and 'expired' or 'stopped', 1)
    return
  end
  local tag = hold.c .. '/' .. int(priority)
  if tag ~= hold.tag then
    local record = parse_domain_record(redis.call('HGET', P .. 'k:' .. hold.c, hold.domain))
    note_band(hold.c, record, hold.spider, priority)
    save_domain_record(hold.c, hold.domain, record)
  end
  if delay_ms > 0 then
    count(hold.c, 'delayed', 1)
    delay(hold.spider, hold.domain, tag, entry, now + delay_ms, in_front)
  else
    count(hold.c, 'queued', 1)
    push(hold.spider, hold.domain, tag, priority, { entry }, in_front)
  end
end

-- A worker without holds leaves no trace.
local function forget_worker(worker)
  local S = redis.call('HGET', P .. 'h:' .. worker, '@')
  if S then
    redis.call('ZREM', P .. 'z:' .. S, worker)
  end
  redis.call('DEL', P .. 'h:' .. worker, P .. 'recalled:' .. worker)
  redis.call('ZREM', P .. 'workers', worker)
end
