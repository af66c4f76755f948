-- Who may be asked now: the rule of a domain against what was sent to it.
-- Guarantee: a grant counts from now until one window after its reported send; one that was not
--   reported yet counts as if it were sent now; after a restart a domain is treated as if its
--   allowance had been used up to that moment. When in doubt the answer is "later".
-- State `t` of a domain, packed: {unreported, concurrent, not_before, life, bonus, b1, n1, b2, n2 …}
--   with b = bucket of sends, n = sends in it. A moderated rule keeps only the last send. Others
--   keep at most 256 buckets of window/256 ms (1 ms for up to 256 hits); a bucket counts whole
--   until one window after its end.
-- bonus: 0 none; 1 one more grant is due at once (the first one bought a robots.txt);
--   2 it was given, so the next one waits twice the spacing.
-- Cost: arithmetic; states and rules are read and written in one command a batch by the caller.
local UNREPORTED, CONCURRENT, NOT_BEFORE, LIFE, BONUS, FIRST = 1, 2, 3, 4, 5, 6
local MAX_BUCKETS = 256
local rule_cache = {}

-- "hits window_ms moderated concurrency" -> table; hits 0 holds the domain back.
local function parse_rule(text)
  local rule = rule_cache[text]
  if not rule then
    local hits, window, moderated, concurrency = string.match(text, '^(%d+) (%d+) (%d) (%d+)$')
    rule = { hits = tonumber(hits), window = tonumber(window), moderated = moderated == '1',
      concurrency = tonumber(concurrency) }
    if rule.hits > 0 then
      rule.spacing = math.ceil(rule.window / rule.hits)
      rule.bucket = rule.hits <= MAX_BUCKETS and 1 or math.ceil(rule.window / MAX_BUCKETS)
    end
    rule_cache[text] = rule
  end
  return rule
end

-- Rules of many domains: one HMGET, the default where a domain has none.
local function rules_of(domains)
  local fields = { '*' }
  for i = 1, #domains do
    fields[i + 1] = domains[i]
  end
  local texts = redis.call('HMGET', P .. 'rules', unpack(fields))
  local rules = {}
  for i = 1, #domains do
    rules[i] = parse_rule(texts[i + 1] or texts[1])
  end
  return rules
end

local state_cache = {}
local changed_states = {}

-- Read the throttle states of many domains: one HMGET.
local function load_states(domains)
  local missing = {}
  for i = 1, #domains do
    if not state_cache[domains[i]] then
      missing[#missing + 1] = domains[i]
    end
  end
  if #missing == 0 then
    return
  end
  local packed = redis.call('HMGET', P .. 't', unpack(missing))
  for i = 1, #missing do
    state_cache[missing[i]] = packed[i] and cmsgpack.unpack(packed[i]) or { 0, 0, 0, 0, 0 }
  end
end

local function save_states()
  local args = {}
  for domain, state in pairs(changed_states) do
    args[#args + 1] = domain
    args[#args + 1] = cmsgpack.pack(state)
  end
  if #args > 0 then
    redis.call('HSET', P .. 't', unpack(args))
  end
end

-- Note sends at time `at`.
local function add_sends(state, rule, at, sends)
  if rule.hits == 0 then
    rule = { moderated = true }
  end
  if rule.moderated then
    local last = state[FIRST]
    for i = #state, FIRST, -1 do
      if state[i] and (i - FIRST) % 2 == 0 and state[i] > last then
        last = state[i]
      end
      state[i] = nil
    end
    state[FIRST], state[FIRST + 1] = math.max(last or at, at), 1
    return
  end
  local bucket = math.floor(at / rule.bucket) * rule.bucket
  local i = #state - 1
  while i >= FIRST and state[i] > bucket do
    i = i - 2
  end
  if i >= FIRST and state[i] == bucket then
    state[i + 1] = state[i + 1] + sends
  else
    table.insert(state, i + 2, bucket)
    table.insert(state, i + 3, sends)
  end
end

-- After a restart: as if the allowance had been used up to it.
local function charge_restart(state, rule)
  if state[LIFE] ~= life then
    state[LIFE] = life
    if restart + rule.window > now then
      add_sends(state, rule, restart, rule.hits)
    end
  end
end

-- Sends that still count for an unmoderated rule, and when the oldest of them stops to.
local function sends_in_window(state, rule)
  local keep = FIRST
  while state[keep] and state[keep] + rule.bucket + rule.window <= now do
    keep = keep + 2
  end
  if keep > FIRST then
    local size = #state
    for i = FIRST, size do
      state[i] = state[i + keep - FIRST]
    end
  end
  local sends = 0
  for i = FIRST + 1, #state, 2 do
    sends = sends + state[i]
  end
  return sends, state[FIRST] and state[FIRST] + rule.bucket + rule.window
end

local CONCURRENCY_RECHECK_MS = 1000

-- How many requests may go to the domain now; if none, when to ask again.
local function allowance(state, rule)
  charge_restart(state, rule)
  if state[NOT_BEFORE] > now then
    return 0, state[NOT_BEFORE]
  end
  local room = rule.concurrency - state[CONCURRENT]
  if room <= 0 then
    return 0, now + CONCURRENCY_RECHECK_MS
  end
  if rule.moderated then
    if state[UNREPORTED] > 0 then
      return 0, now + rule.spacing
    end
    if not state[FIRST] or state[BONUS] == 1 then
      return 1
    end
    local due = state[FIRST] + (state[BONUS] == 2 and 2 or 1) * rule.spacing
    if due <= now then
      return 1
    end
    return 0, due
  end
  local sends, expiry = sends_in_window(state, rule)
  local left = rule.hits - state[UNREPORTED] - sends
  if left > 0 then
    return math.min(left, room)
  end
  return 0, expiry or now + rule.window
end

-- Account for grants.
local function grant(domain, state, amount)
  state[UNREPORTED] = state[UNREPORTED] + amount
  state[CONCURRENT] = state[CONCURRENT] + amount
  if state[BONUS] > 0 then
    state[BONUS] = state[BONUS] == 1 and 2 or 0
  end
  changed_states[domain] = state
end

-- The earliest time of the next grant, right after `grant`.
local function next_grant(state, rule)
  if rule.moderated then
    return now + (state[BONUS] == 2 and 2 or 1) * rule.spacing
  end
  local allowed, later = allowance(state, rule)
  return allowed > 0 and now or later
end

-- A granted request went out at time `at`.
local function report_send(domain, state, rule, at)
  state[UNREPORTED] = math.max(state[UNREPORTED] - 1, 0)
  add_sends(state, rule, at, 1)
  changed_states[domain] = state
end

-- A granted request is over: its response is there, or it will never be sent.
local function end_request(domain, state)
  state[CONCURRENT] = math.max(state[CONCURRENT] - 1, 0)
  changed_states[domain] = state
end

-- When nothing of the state can hold back a request any more, so that it may be forgotten.
local function spent_at(state, rule)
  if state[UNREPORTED] > 0 or state[CONCURRENT] > 0 then
    return now + math.max(CONCURRENCY_RECHECK_MS, rule.spacing or 0)
  end
  local last = #state >= FIRST and state[#state - 1] or NEVER
  local holds_back = rule.moderated and 2 * (rule.spacing or rule.window)
    or rule.window + (rule.bucket or 0)
  return math.max(state[NOT_BEFORE], last + holds_back)
end
