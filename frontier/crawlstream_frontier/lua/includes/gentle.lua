-- Gentle rules: those with `gentle`, the number of servers of a site whose time all crawlers together may use.
-- Guarantee: they only ever delay requests. Between two there is at least the mean time to the first byte divided by
--   `gentle`, and as much again as the site is slower than twice its floor, up to 300 s; never less than the rule and
--   the Crawl-delay require. No more than `gentle` requests, rounded up, are in flight.
-- `latency` HASH name of a throttle state -> mean, floor, time of the latest measure, number of measures, packed; ms.
--   Mean: each measure has a weight of 0.1 (the first ten have equal ones), and counts at most ten times the mean, so
--   that one connection that breaks does not stop the crawl. Floor: the lowest mean from the tenth measure on; it
--   rises by 5 % an hour. A hash of its own: processes of the version before would take it for sends in the states.
-- Needs: clock, throttle (which includes it). Cost: one HMGET and one HSET per call, none where no rule is gentle.
local is_any_gentle = false
local make_gentle, slow_down, note_latency, save_latencies, latency_kept_until, latency_of

do
local LATENCY, THOUSANDTHS, FIRST_MEASURES, WEIGHT, MOST_TIMES = '<dddB', 1000, 10, 0.1, 10
local HOUR_MS, RISE_AN_HOUR, SLOWER, LONGEST_SPACING_MS, KEPT_MS = 3600000, 1.05, 2, 300000, 3600000
local changed_latencies = {}

-- Read `gentle` from the text of a rule: thousandths in front of the last four digits, which are `render`. Processes of
-- the version before read no more than they know. Gentle rules space their requests evenly.
function make_gentle(rule, text)
  local gentle = string.match(text, ' (%d+)%d%d%d%d$')
  if gentle then
    rule.gentle, is_any_gentle, rule.moderated = gentle / THOUSANDTHS, true, true
    rule.concurrency = math.min(rule.concurrency, math.ceil(rule.gentle))
  end
end

-- Return the spacing that the latency of a site requires.
local function spacing_of(latency, gentle)
  local spacing = latency.mean / gentle
  if latency.floor > 0 and latency.mean > SLOWER * latency.floor then
    spacing = spacing * latency.mean / (SLOWER * latency.floor)
  end
  return math.ceil(math.min(spacing, LONGEST_SPACING_MS))
end

-- Let the rule of a state, or a longer spacing, apply.
local function apply_latency(state)
  local rule, latency = state.rule_without_latency, state.latency
  local spacing = latency and spacing_of(latency, rule.gentle) or 0
  state.rule = rule.hits > 0 and spacing > rule.spacing and spaced(rule, spacing) or rule
end

local function load_latencies(states)
  local keys = {}
  for i = 1, #states do
    keys[i] = states[i].key
  end
  local texts = #keys > 0 and redis.call('HMGET', K.latency, unpack(keys)) or {}
  for i = 1, #keys do
    local mean, floor, at, measures
    if texts[i] then
      mean, floor, at, measures = struct.unpack(LATENCY, texts[i])
    end
    states[i].latency = mean and { mean = mean, floor = floor, at = at, measures = measures } or false
  end
end

-- Slow the rules of these states down by the latency of their sites. Return true if any of the rules is gentle.
function slow_down(states)
  local gentle, unknown = {}, {}
  for i = 1, #states do
    local state = states[i]
    if state.rule.gentle then
      gentle[#gentle + 1], state.rule_without_latency = state, state.rule
      unknown[#unknown + 1] = state.latency == nil and state or nil
    end
  end
  load_latencies(unknown)
  for i = 1, #gentle do
    apply_latency(gentle[i])
  end
  return #gentle > 0
end

-- Record the time to the first byte of an answer, or the timeout for a silence. A site that never answered has no
-- latency: its silences are for `care`.
function note_latency(state, what, ms)
  local latency = state.latency
  if not state.rule_without_latency or (what ~= ANSWER and not latency) then
    return
  end
  latency = latency or { mean = math.max(ms, 1), floor = 0, at = now, measures = 0 }
  latency.measures = math.min(latency.measures + 1, FIRST_MEASURES)
  local measure = math.min(math.max(ms, 1), MOST_TIMES * latency.mean)
  latency.mean = latency.mean + math.max(WEIGHT, 1 / latency.measures) * (measure - latency.mean)
  if latency.floor > 0 then
    latency.floor = math.min(latency.floor * RISE_AN_HOUR ^ ((now - latency.at) / HOUR_MS), latency.mean)
  elseif latency.measures == FIRST_MEASURES then
    latency.floor = latency.mean
  end
  latency.at, state.latency, changed_latencies[state.key] = now, latency, latency
  apply_latency(state)
end

function save_latencies()
  local args, n = {}, 0
  for key, latency in pairs(changed_latencies) do
    args[n + 1], args[n + 2] = key, struct.pack(LATENCY, latency.mean, latency.floor, latency.at, latency.measures)
    n = n + 2
  end
  if n > 0 then
    redis.call('HSET', K.latency, unpack(args))
  end
end

-- Return the time until which the latency of a domain without pages is kept.
function latency_kept_until(state)
  return state.latency.at + KEPT_MS
end

-- Return to display: mean and floor in ms (0: not known yet), and the spacing that they require.
function latency_of(state)
  local latency = state.latency
  if not latency then
    return 0, 0, 0
  end
  return math.floor(latency.mean + 0.5), math.floor(latency.floor + 0.5), spacing_of(latency, state.rule.gentle)
end
end
