-- Gentle rules: those with `gentle`, the number of servers of a site whose time all crawlers together may use.
-- Guarantee: they only ever delay requests. Between two there is at least the mean time to the first byte divided by
--   `gentle`, and as much again as the site is slower than twice its floor, up to 300 s; never less than the rule and
--   the Crawl-delay require. No more than `gentle` requests, rounded up, are in flight. They are evenly spaced.
-- `latency` HASH name of a throttle state -> mean, floor, time of the latest measure, number of measures, packed; ms.
--   Mean: each measure has a weight of 0.1 (the first ten have equal ones), and counts at most ten times the mean, so
--   that one connection that breaks does not stop the crawl. Floor: the lowest mean from the tenth measure on; it
--   rises by 5 % an hour. A hash of its own: processes of the version before would take it for sends in the states.
-- Needs: clock, throttle (which includes it). Cost: one HMGET and one HSET per call. Where no rule is gentle, nothing:
--   functions cost instructions when they are made.

-- A block hides the following names: a function in Lua has 200 names at most.
do
-- Add a measure to the mean and the floor of a site.
local function add_measure(latency, ms)
  local FIRST_MEASURES, WEIGHT, MOST_TIMES, HOUR_MS, RISE_AN_HOUR = 10, 0.1, 10, 3600000, 1.05
  latency.measures = math.min(latency.measures + 1, FIRST_MEASURES)
  local measure = math.min(ms, MOST_TIMES * latency.mean)
  latency.mean = latency.mean + math.max(WEIGHT, 1 / latency.measures) * (measure - latency.mean)
  if latency.floor > 0 then
    latency.floor = math.min(latency.floor * RISE_AN_HOUR ^ ((now - latency.at) / HOUR_MS), latency.mean)
  elseif latency.measures == FIRST_MEASURES then
    latency.floor = latency.mean
  end
  latency.at = now
end

-- Return the spacing that the latency of a site requires if its rule has this `gentle`.
local function spacing_of(latency, share)
  local SLOWER, LONGEST_SPACING_MS = 2, 300000
  local spacing = latency.mean / share
  if latency.floor > 0 and latency.mean > SLOWER * latency.floor then
    spacing = spacing * latency.mean / (SLOWER * latency.floor)
  end
  return math.ceil(math.min(spacing, LONGEST_SPACING_MS))
end

-- Return the functions that load and save latencies.
local function stored_latencies()
  local LATENCY, changed_latencies = '<dddB', {}

  local function load(states)
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

  local function change(state, latency)
    state.latency, changed_latencies[state.key] = latency, latency
  end

  local function save()
    local args, n = {}, 0
    for key, latency in pairs(changed_latencies) do
      args[n + 1], args[n + 2] = key, struct.pack(LATENCY, latency.mean, latency.floor, latency.at, latency.measures)
      n = n + 2
    end
    if n > 0 then
      redis.call('HSET', K.latency, PAD, PADDING, unpack(args))
    end
  end

  return load, change, save
end

-- Add the operations that need no latency, or only read or delete one.
local function add_readers(gentle)
  local KEPT_MS, THOUSANDTHS = 3600000, 1000

  -- Make a rule gentle; `thousandths` as in its text.
  function gentle.limit(rule, thousandths)
    rule.gentle, rule.moderated = thousandths / THOUSANDTHS, true
    rule.concurrency = math.min(rule.concurrency, math.ceil(rule.gentle))
  end

  -- Return the time until which the latency of a domain without pages is kept.
  function gentle.kept_until(state)
    return state.latency.at + KEPT_MS
  end

  function gentle.forget(key)
    redis.call('HDEL', K.latency, key)
    if redis.call('HLEN', K.latency) == 1 then
      redis.call('DEL', K.latency)
    end
  end

  -- Return mean and floor in ms (0: not known yet), and the spacing that they require.
  function gentle.shown(state)
    local latency = state.latency
    if not latency then
      return 0, 0, 0
    end
    return math.floor(latency.mean + 0.5), math.floor(latency.floor + 0.5), spacing_of(latency, state.rule.gentle)
  end
end

-- Return the operations on gentle rules; they exist once a call has read such a rule.
function gentle_rules()
  if made_gentle then
    return made_gentle
  end
  local load, change, save = stored_latencies()
  local gentle = { save = save }
  made_gentle = gentle
  add_readers(gentle)

  -- Let the rule of a state, or a longer spacing, apply.
  local function apply_latency(state)
    local rule, latency = state.rule_without_latency, state.latency
    local spacing = latency and spacing_of(latency, rule.gentle) or 0
    state.rule = rule.hits > 0 and spacing > rule.spacing and spaced(rule, spacing) or rule
  end

  -- Slow the rules of these states down by the latency of their sites. Return true if any of the rules is gentle.
  function gentle.slow_down(states)
    local with_gentle, unknown = {}, {}
    for i = 1, #states do
      local state = states[i]
      if state.rule.gentle then
        with_gentle[#with_gentle + 1], state.rule_without_latency = state, state.rule
        unknown[#unknown + 1] = state.latency == nil and state or nil
      end
    end
    load(unknown)
    for i = 1, #with_gentle do
      apply_latency(with_gentle[i])
    end
    return #with_gentle > 0
  end

  -- Record the time to the first byte of an answer, or the timeout for a silence. A site that never answered has no
  -- latency: its silences are for `care`.
  function gentle.note(state, is_answer, ms)
    if state.rule_without_latency and (is_answer or state.latency) then
      ms = math.max(ms, 1)
      local latency = state.latency or { mean = ms, floor = 0, at = now, measures = 0 }
      add_measure(latency, ms)
      change(state, latency)
      apply_latency(state)
    end
  end

  return gentle
end
end
