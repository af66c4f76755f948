-- Holds: entries in the hands of a worker, and their way back.
-- Guarantee: whatever ends a hold finds it by (worker, token) and removes it in the same script; a
--   token that is not there changes nothing. A hold that ends without a reported send counts as
--   sent now: allowances are never refunded.
-- `h:<worker>` HASH token -> "<since> <flags> <tag> <spider> <domain> <entry>", and `!` -> number of
--   the last granting call. flags: 0 granted, 1 sent, 2 response received.
-- Entry: three characters (retries, deaths, reaps; each '!' + n), profile number, ',' and the body.
local ZERO = 33

local function marks_of(entry)
  return string.byte(entry, 1) - ZERO, string.byte(entry, 2) - ZERO, string.byte(entry, 3) - ZERO
end

local function with_marks(entry, retries, deaths, reaps)
  return string.char(ZERO + math.min(retries, 90), ZERO + math.min(deaths, 90),
    ZERO + math.min(reaps, 90)) .. string.sub(entry, 4)
end

local function parse_hold(token, text)
  local since, flags, tag, S, domain, entry = string.match(text, '^(%d+) (%d) (%S+) (%S+) (%S+) (.*)$')
  local c, priority = split_tag(tag)
  return { token = token, since = tonumber(since), flags = tonumber(flags), tag = tag, c = c,
    priority = priority, spider = S, domain = domain, entry = entry }
end

local function hold_text(hold)
  return int(hold.since) .. ' ' .. int(hold.flags) .. ' ' .. hold.tag .. ' ' .. hold.spider .. ' '
    .. hold.domain .. ' ' .. hold.entry
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

-- Move the next grant of a domain in the waiting index of a spider, if it waits there.
local function reschedule(S, domain, state, rule)
  if rule.hits == 0 then
    return
  end
  local allowed, later = allowance(state, rule)
  redis.call('ZADD', P .. 'w:' .. S, 'XX', int(allowed > 0 and now or later), domain)
end

-- Note on the throttle state what is known about the sending of a hold.
local function note_sent(hold, state, rule, sent_ms)
  if hold.flags == 0 then
    local at = sent_ms and math.min(now, hold.since + sent_ms) or now
    report_send(hold.domain, state, rule, at)
    hold.flags = 1
  end
end

-- End a hold's part in the throttle and remove it from its worker; the entry is the caller's.
local function end_hold(worker, hold, state, rule, sent_ms)
  note_sent(hold, state, rule, sent_ms)
  if hold.flags < 2 then
    end_request(hold.domain, state)
  end
  reschedule(hold.spider, hold.domain, state, rule)
  redis.call('HDEL', P .. 'h:' .. worker, hold.token)
  count(hold.c, 'held', -1)
  touched[hold.c] = true
end

-- Put the entry of an ended hold back: to the front of its band or behind its own, at once or later.
-- A run that is being stopped takes nothing back: the entry counts as stopped (or expired).
local function put_back(hold, priority, in_front, delay_ms)
  local state = crawl_of(hold.c).state
  if state ~= 'running' then
    count(hold.c, state == 'expiring' and 'expired' or 'stopped', 1)
    return
  end
  local tag = hold.c .. '/' .. int(priority)
  if tag ~= hold.tag then
    local key = P .. 'k:' .. hold.c
    local record = parse_domain_record(redis.call('HGET', key, hold.domain))
    note_band(hold.c, record, hold.spider, priority)
    save_domain_record(hold.c, hold.domain, record)
  end
  if delay_ms and delay_ms > 0 then
    count(hold.c, 'delayed', 1)
    delay(hold.spider, hold.domain, tag, hold.entry, now + delay_ms, in_front)
  else
    count(hold.c, 'queued', 1)
    push(hold.spider, hold.domain, tag, priority, { hold.entry }, in_front)
  end
end

-- Throttle states and rules of the domains of some holds, keyed by domain.
local function throttle_of(holds)
  local domains, found = {}, {}
  for _, hold in pairs(holds) do
    if not found[hold.domain] then
      found[hold.domain] = true
      domains[#domains + 1] = hold.domain
    end
  end
  local rules = {}
  if #domains > 0 then
    load_states(domains)
    local list = rules_of(domains)
    for i = 1, #domains do
      rules[domains[i]] = list[i]
    end
  end
  return rules
end

-- A worker without holds leaves no trace.
local function forget_worker(worker)
  redis.call('DEL', P .. 'h:' .. worker)
  redis.call('ZREM', P .. 'workers', worker)
  for _, S in ipairs(redis.call('SMEMBERS', P .. 'spiders')) do
    redis.call('ZREM', P .. 'z:' .. S, worker)
  end
end
