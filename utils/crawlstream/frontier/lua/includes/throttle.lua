-- Who may be asked now: the rule of a domain against what was sent to it.
-- Guarantee: a grant counts from now until one window after its reported send; one that was not
--   reported yet counts as if it were sent now; after a restart a domain is treated as if its
--   allowance had been used up to that moment. When in doubt the answer is "later".
-- State `t` of a domain, packed: {unreported, concurrent, not_before, life, bonus, b1, n1, b2, n2 …}
--   with b = bucket of sends, n = sends in it. A moderated rule keeps only the last send, with n = 0.
--   Others keep buckets of 1 ms for up to 128 hits, of window/32 beyond that; a bucket counts whole
--   until one window after its end.
-- bonus: 0 none; 3 the first grant is out; 1 it bought a robots.txt, so one more grant is due at once;
--   2 that was given, so the next one waits twice the spacing.
-- `v` ZSET: domains that ran empty, by the time when their state may be spent; `tend` forgets it.
-- Cost: arithmetic; states and rules are read and written in one command a batch by the caller.
local UNREPORTED, CONCURRENT, NOT_BEFORE, LIFE, BONUS, FIRST = 1, 2, 3, 4, 5, 6
local HEAD, HEAD_SIZE, BUCKET, BUCKET_SIZE = '<I4I4dI4B', 21, 'dI4', 12
local EXACT_HITS, COARSE_BUCKETS = 128, 32
local DEFAULT_RULE = ''
local NO_BONUS, BONUS_DUE, BONUS_GIVEN, FIRST_OUT = 0, 1, 2, 3
local CONCURRENCY_RECHECK_MS = 1000
local rule_cache = {}

-- "hits window_ms moderated concurrency" -> table; hits 0 holds the domain back.
local function parse_rule(text)
  local rule = rule_cache[text]
  if not rule then
    local hits, window, moderated, concurrency = string.match(text, '^(%d+) (%d+) (%d) (%d+)$')
    rule = { hits = tonumber(hits), window = tonumber(window), moderated = moderated == '1',
      concurrency = tonumber(concurrency) }
    rule.spacing = math.ceil(rule.window / math.max(rule.hits, 1))
    rule.bucket = rule.hits <= EXACT_HITS and 1 or math.ceil(rule.window / COARSE_BUCKETS)
    rule_cache[text] = rule
  end
  return rule
end

-- Rules of many domains: one HMGET, the default where a domain has none.
local function rules_of(domains)
  local texts = redis.call('HMGET', P .. 'rules', DEFAULT_RULE, unpack(domains))
  local rules = {}
  for i = 1, #domains do
    rules[i] = parse_rule(texts[i + 1] or texts[1])
  end
  return rules
end

local formats = {}

local function format_of(buckets)
  local format = formats[buckets]
  if not format then
    format = HEAD .. string.rep(BUCKET, buckets)
    formats[buckets] = format
  end
  return format
end

local function decode_state(packed)
  if not packed then
    return { 0, 0, 0, 0, 0, is_new = true }
  end
  local state = { struct.unpack(format_of((#packed - HEAD_SIZE) / BUCKET_SIZE), packed) }
  state[#state] = nil
  return state
end

local function encode_state(state)
  return struct.pack(format_of((#state - BONUS) / 2), unpack(state))
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
    state_cache[missing[i]] = decode_state(packed[i])
  end
end

local function save_states()
  local args = {}
  for domain, state in pairs(changed_states) do
    args[#args + 1] = domain
    args[#args + 1] = encode_state(state)
  end
  if #args > 0 then
    redis.call('HSET', P .. 't', unpack(args))
  end
end

-- A moderated rule knows the last send only: no later one may be forgotten when rules change.
local function keep_last(state, at)
  local last = #state > FIRST and math.max(state[#state - 1], at) or at
  for i = #state, FIRST, -1 do
    state[i] = nil
  end
  state[FIRST], state[FIRST + 1] = last, 0
end

-- Note sends at time `at`.
local function add_sends(state, rule, at, sends)
  if rule.moderated then
    return keep_last(state, at)
  end
  local bucket = math.floor(at / rule.bucket) * rule.bucket
  local i = #state - 1
  while i >= FIRST and state[i] > bucket do
    i = i - 2
  end
  if i >= FIRST and state[i] == bucket then
    state[i + 1] = state[i + 1] + sends
  else
    table.insert(state, i >= FIRST and i + 2 or FIRST, sends)
    table.insert(state, i >= FIRST and i + 2 or FIRST, bucket)
  end
end

-- After a restart: as if the allowance had been used up to it.
local function charge_restart(state, rule)
  if state[LIFE] ~= life then
    state[LIFE] = life
    if restart + rule.window > now then
      add_sends(state, rule, restart, math.max(rule.hits, 1))
    end
  end
end

-- Sends that still count for an unmoderated rule, and when the oldest of them stops to.
local function sends_in_window(state, rule)
  if state[FIRST + 1] == 0 then
    -- Written under a moderated rule, which keeps no history: it may have been a whole allowance.
    state[FIRST + 1] = rule.hits
  end
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

local function spacing_after(state, rule)
  return (state[BONUS] == BONUS_GIVEN and 2 or 1) * rule.spacing
end

local function moderated_allowance(state, rule)
  if state[UNREPORTED] > 0 then
    return 0, now + rule.spacing
  end
  local last = #state > FIRST and state[#state - 1]
  if not last or state[BONUS] == BONUS_DUE then
    return 1
  end
  local due = last + spacing_after(state, rule)
  if due <= now then
    return 1
  end
  return 0, due
end

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
    return moderated_allowance(state, rule)
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
  if state[BONUS] == BONUS_DUE then
    state[BONUS] = BONUS_GIVEN
  else
    local is_first = #state < FIRST and state[UNREPORTED] == 0
    state[BONUS] = is_first and FIRST_OUT or NO_BONUS
  end
  state[UNREPORTED] = state[UNREPORTED] + amount
  state[CONCURRENT] = state[CONCURRENT] + amount
  changed_states[domain] = state
end

-- The first request to a domain was for a robots.txt: the page may follow at once. Together they
-- count as two, which the double pause after them pays for.
local function earn_bonus(state, rule)
  if state[BONUS] == FIRST_OUT and rule.moderated and rule.hits > 1 then
    state[BONUS] = BONUS_DUE
  end
end

-- The earliest time of the next grant, after a grant that left `left` of the allowance.
local function next_grant(state, rule, left)
  if rule.moderated then
    return now + spacing_after(state, rule)
  end
  if left > 0 then
    return now
  end
  local _, later = allowance(state, rule)
  return later or now
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
    return now + math.max(CONCURRENCY_RECHECK_MS, rule.spacing)
  end
  local last = #state > FIRST and state[#state - 1] or NEVER
  local holds_back = rule.moderated and 2 * rule.spacing or rule.window + rule.bucket
  return math.max(state[NOT_BEFORE], last + holds_back)
end

-- A domain ran empty: let `tend` look when its state is spent.
local function forget_later(domain, state, rule)
  redis.call('ZADD', P .. 'v', 'NX', int(math.max(spent_at(state, rule), now)), domain)
end
