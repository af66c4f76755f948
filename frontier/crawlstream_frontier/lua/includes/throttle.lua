-- Rate limits: which domains may be fetched now, by their rules and the requests sent to them.
-- Guarantee: a grant counts from now until one window after its reported send; an unreported one as if sent now; after
--   a restart a domain counts as if its allowance had been used up to a second later. In doubt nothing is granted.
-- State `t` of a domain, packed: unreported, concurrent, not_before, life, bonus, sends in all buckets, start of the
--   latest bucket, sends in it; with a not_before, its care; then {start, sends} of each older bucket, expiring singly.
--   Buckets are of 1 ms for up to 128 hits, of window/32 beyond that; each counts whole until one
--   window after its end. A moderated rule keeps only the last send, as a latest bucket with no sends in it.
-- care: the site's own limits, see `care`. strikes, silences in a row; time of the last strike; time since when
--   nothing was answered, -1 if it rests outside its hours; Crawl-delay, and until when (epoch ms) it is known.
-- bonus: 0 none; 3 the first grant is out; 1 it bought a robots.txt, so one more grant is due at once;
--   2 that was given, so the next one waits twice the spacing.
-- Cost: arithmetic; the caller reads and writes states and rules with one command per batch.
local DEFAULT_RULE = ''
local state_cache, changed_states = {}, {}
local table_rule_of, join_rules, load_states, save_states, spent_at
local allowance, grant, report_request, add_sends, slowed, spaced
local ANSWER, NO_BONUS, BONUS_DUE, BONUS_GIVEN, FIRST_OUT = 1, 0, 1, 2, 3
local UNREPORTED, CONCURRENT, NOT_BEFORE, BONUS, SENDS, STRIKES, STRUCK_AT = 1, 2, 3, 5, 6, 10, 12
local SILENCES, SINCE, DELAY, DELAY_UNTIL = 11, 13, 14, 15
local made_gentle, gentle_rules, care_kept_until  -- See `gentle` and `care`.

-- A block hides the following names: a function in Lua has 200 names at most.
do
local LIFE, LATEST, IN_LATEST, OLDER = 4, 7, 8, 9
local HEAD, HEAD_SIZE, BUCKET, BUCKET_SIZE, CARE = '<IIdIBIdI', 37, '<dI', 12, '<BBddI4d'
local EXACT_HITS, COARSE_BUCKETS, LONG_HISTORY = 128, 32, 48 * 12
local CONCURRENCY_RECHECK_MS, UNHEARD_MS, PAUSE_RECHECK_MS, FIELDS_WITHOUT_DOMAIN = 1000, 1000, 60000, 2
local rule_cache, default_rule, has_own_rules = {}
local short_life = life % 4294967296  -- The part stored in a state: equal ones are seven weeks apart.

-- "hits window_ms moderated concurrency[ paused_until_s[ render]]" -> table; hits 0 holds it back; render: crawlers',
-- and, in front of its four digits, thousandths of `gentle`: processes of the version before pass over both.
local function parse_rule(text)
  local rule = rule_cache[text]
  if not rule then
    local hits, window, moderated, concurrency, until_s = string.match(text, '^(%d+) (%d+) (%d) (%d+) ?(%d*) ?%d*$')
    rule = { hits = tonumber(hits), window = tonumber(window), moderated = moderated == '1',
      concurrency = tonumber(concurrency), paused_until = (tonumber(until_s) or 0) * 1000 }
    rule.spacing = math.ceil(rule.window / math.max(rule.hits, 1))
    rule.bucket = rule.hits <= EXACT_HITS and 1 or math.ceil(rule.window / COARSE_BUCKETS)
    local gentle = until_s ~= '' and string.match(text, '^%d+ %d+ %d %d+ %d+ (%d+)%d%d%d%d$')
    if gentle then
      gentle_rules().limit(rule, gentle)
    end
    rule_cache[text] = rule
  end
  return rule
end

-- Return a rule with this spacing instead of its own.
function spaced(rule, spacing)
  return { hits = 1, window = spacing, spacing = spacing, bucket = 1, moderated = true,
    concurrency = rule.concurrency, paused_until = rule.paused_until, gentle = rule.gentle }
end

-- Return the rule of a domain whose robots.txt has a Crawl-delay: the slower of the two.
function slowed(state, rule)
  local spacing = math.max(rule.spacing, state[DELAY])
  if rule.hits == 0 or state[DELAY_UNTIL] <= wall or (rule.moderated and spacing == rule.spacing) then
    return rule
  end
  return spaced(rule, spacing)
end

-- Return the table's rule for a domain; `rule` of its state is the one that applies now.
function table_rule_of(domain)
  if not default_rule then
    default_rule = parse_rule(redis.call('HGET', K.rules, DEFAULT_RULE))
    local rules_of_gates = sites and string.match(sites, '%+(%d+)@?$') or 0
    has_own_rules = redis.call('HLEN', K.rules) > FIELDS_WITHOUT_DOMAIN + rules_of_gates
  end
  local text = has_own_rules and domain ~= DEFAULT_RULE and redis.call('HGET', K.rules, domain)
  return text and parse_rule(text) or default_rule
end

-- Add their rules to the states of these domains, or gates: one HMGET if any has a rule of its own. Return true if any
-- is gentle.
function join_rules(domains, states, are_gates)
  local default = table_rule_of(DEFAULT_RULE)
  local texts = (has_own_rules or are_gates) and redis.call('HMGET', K.rules, unpack(domains))
  for i = 1, #domains do
    local state, rule = states[i], texts and texts[i] and parse_rule(texts[i]) or default
    state.rule = state[NOT_BEFORE] ~= 0 and slowed(state, rule) or rule
  end
  return made_gentle and made_gentle.slow_down(states)
end

local function decode_state(key, packed)
  if not packed then
    return { 0, 0, 0, 0, NO_BONUS, 0, NEVER, 0, '', key = key, rule = false, is_new = true }
  end
  local state = { key = key, rule = false, struct.unpack(HEAD, packed) }
  local older = HEAD_SIZE + 1
  if state[NOT_BEFORE] ~= 0 then
    state[STRIKES], state[SILENCES], state[STRUCK_AT], state[SINCE], state[DELAY],
      state[DELAY_UNTIL], older = struct.unpack(CARE, packed, older)
  end
  state[OLDER] = older > #packed and '' or string.sub(packed, older)
  return state
end

local function encode_state(state)
  local head = struct.pack(HEAD, unpack(state, UNREPORTED, IN_LATEST))
  if state[NOT_BEFORE] == 0 then
    return head .. state[OLDER]
  end
  return head .. struct.pack(CARE, unpack(state, STRIKES, DELAY_UNTIL)) .. state[OLDER]
end

-- Return the throttle states of these names, in their order: one HMGET for those not loaded yet.
function load_states(keys)
  local missing, n = {}, 0
  for i = 1, #keys do
    local key = keys[i]
    if state_cache[key] == nil then
      n = n + 1
      missing[n], state_cache[key] = key, false
    end
  end
  local states = n > 0 and redis.call('HMGET', K.states, unpack(missing)) or {}
  for i = 1, n do
    local state = decode_state(missing[i], states[i])
    states[i], state_cache[missing[i]] = state, state
  end
  for i = 1, n < #keys and #keys or 0 do
    states[i] = state_cache[keys[i]]
  end
  return states
end

function save_states()
  local args, n = {}, 0
  for key, state in pairs(changed_states) do
    args[n + 1], args[n + 2] = key, encode_state(state)
    n = n + 2
  end
  if n > 0 then
    redis.call('HSET', K.states, unpack(args))
  end
  if made_gentle then
    made_gentle.save()
  end
end

-- Restore an allowance after a moderated rule, which keeps no history: its last send may have been a whole allowance.
local function recall_allowance(state)
  if state[IN_LATEST] == 0 and state[LATEST] > NEVER then
    state[SENDS], state[IN_LATEST] = state.rule.hits, state.rule.hits
  end
end

-- Add sends that are reported after later ones.
local function add_older(state, bucket, sends)
  local older = state[OLDER]
  local at = #older - BUCKET_SIZE + 1
  while at > 0 and struct.unpack(BUCKET, older, at) > bucket do
    at = at - BUCKET_SIZE
  end
  local behind = at + BUCKET_SIZE
  local start, there = nil, 0
  if at > 0 then
    start, there = struct.unpack(BUCKET, older, at)
  end
  local same = start == bucket
  state[OLDER] = string.sub(older, 1, (same and at or behind) - 1)
    .. struct.pack(BUCKET, bucket, sends + (same and there or 0)) .. string.sub(older, behind)
end

-- Add sends at time `at`. A moderated rule keeps only the last one: no later send may be lost when rules change.
function add_sends(state, at, sends)
  local rule = state.rule
  if rule.moderated then
    state[LATEST] = at > state[LATEST] and at or state[LATEST]
    state[SENDS], state[IN_LATEST], state[OLDER] = 0, 0, ''
    return
  end
  if state[IN_LATEST] == 0 then
    recall_allowance(state)
  end
  local bucket = at - at % rule.bucket
  state[SENDS] = state[SENDS] + sends
  if bucket < state[LATEST] then
    return add_older(state, bucket, sends)
  elseif bucket > state[LATEST] and state[IN_LATEST] > 0 then
    state[OLDER] = state[OLDER] .. struct.pack(BUCKET, state[LATEST], state[IN_LATEST])
    state[IN_LATEST] = 0
  end
  state[LATEST], state[IN_LATEST] = bucket, state[IN_LATEST] + sends
end

-- Charge the first use after a restart: as if the allowance had been used up to now, and for as long as workers
-- may send after their last contact with Redis. The last send may have been a robots.txt and a page at once.
local function charge_restart(state)
  state[LIFE] = short_life
  local hits, last = state.rule.hits, restart + UNHEARD_MS
  if last + state.rule.window > now then
    add_sends(state, last, math.max(hits, 1))
    state[BONUS] = hits > 1 and BONUS_GIVEN or NO_BONUS
  end
end

-- Return the sends that still count for an unmoderated rule, and the time when the oldest expires.
local function sends_in_window(state)
  recall_allowance(state)
  local since = now - state.rule.bucket - state.rule.window
  local older, at = state[OLDER], 1
  local oldest, sends
  while at < #older do
    oldest, sends = struct.unpack(BUCKET, older, at)
    if oldest > since then
      break
    end
    state[SENDS], at = state[SENDS] - sends, at + BUCKET_SIZE
  end
  if at > 1 then
    state[OLDER] = string.sub(older, at)
  end
  if at > #older then
    oldest = state[LATEST]
    if oldest <= since then
      state[SENDS], state[LATEST], state[IN_LATEST] = 0, NEVER, 0
      return 0, nil
    end
  end
  return state[SENDS], oldest - since + now
end

local function spacing_after(state)
  return (state[BONUS] == BONUS_GIVEN and 2 or 1) * state.rule.spacing
end

-- Return how many requests may go to the domain now; if none, the time of the next. If a caller wants no
-- more than `enough`, the count may be too low: if all sends leave that many, expired ones are not removed.
function allowance(state, enough)
  local rule = state.rule
  if rule.paused_until > wall then
    return 0, now + math.min(rule.paused_until - wall, PAUSE_RECHECK_MS)
  end
  if enough and not rule.moderated and state[IN_LATEST] > 0
    and state[SENDS] + state[UNREPORTED] + enough <= rule.hits
    and state[CONCURRENT] + enough <= rule.concurrency and state[NOT_BEFORE] == 0
    and state[LIFE] == short_life and #state[OLDER] <= LONG_HISTORY then
    return enough
  end
  if state[LIFE] ~= short_life then
    charge_restart(state)
  end
  local room = rule.concurrency - state[CONCURRENT]
  if state[NOT_BEFORE] ~= 0 then
    if state[NOT_BEFORE] > now then
      return 0, state[NOT_BEFORE]
    elseif state[STRIKES] > 0 then
      room = 1 - state[CONCURRENT]
    end
  end
  if room <= 0 then
    return 0, now + CONCURRENCY_RECHECK_MS
  end
  if rule.moderated then
    if state[UNREPORTED] > 0 then
      return 0, now + rule.spacing
    end
    local due = state[LATEST] + spacing_after(state)
    if due <= now or state[BONUS] == BONUS_DUE then
      return 1
    end
    return 0, due
  end
  local sends, expiry = sends_in_window(state)
  local left = rule.hits - state[UNREPORTED] - sends
  if left > 0 then
    return math.min(left, room)
  end
  return 0, expiry or now + rule.window
end

-- Account for grants that leave `left` of the allowance; return the earliest time of the next one.
function grant(state, amount, left)
  if state[BONUS] == BONUS_DUE then
    state[BONUS] = BONUS_GIVEN
  else
    local is_first = state[LATEST] == NEVER and state[UNREPORTED] == 0
    state[BONUS] = is_first and FIRST_OUT or NO_BONUS
  end
  state[UNREPORTED], state[CONCURRENT] = state[UNREPORTED] + amount, state[CONCURRENT] + amount
  changed_states[state.key] = state
  if state.rule.moderated then
    return now + spacing_after(state)
  end
  return left > 0 and now or select(2, allowance(state)) or now
end

-- Report on a granted request. If `is_send`: it was sent at time `at`, but no later than now; false: it never will be.
-- If it `is_over`: its response is received, or it will never be sent.
function report_request(state, is_send, at, is_over)
  if is_send then
    state[UNREPORTED] = state[UNREPORTED] > 0 and state[UNREPORTED] - 1 or 0
    if at then
      add_sends(state, at < now and at or now, 1)
    end
  end
  if is_over then
    state[CONCURRENT] = state[CONCURRENT] > 0 and state[CONCURRENT] - 1 or 0
  end
  changed_states[state.key] = state
end

-- Return the time when the state can no longer hold back a request, so that it may be deleted.
function spent_at(state)
  local rule = state.rule
  if state[UNREPORTED] > 0 or state[CONCURRENT] > 0 then
    return now + math.max(CONCURRENCY_RECHECK_MS, rule.spacing)
  end
  local holds_back = rule.moderated and 2 * rule.spacing or rule.window + rule.bucket
  local spent = state[LATEST] + holds_back
  if state[NOT_BEFORE] ~= 0 then
    spent = math.max(spent, care_kept_until(state))
  end
  return state.latency and math.max(spent, made_gentle.kept_until(state)) or spent
end
end
--- include: gentle
--- include: care
--- include: gates
