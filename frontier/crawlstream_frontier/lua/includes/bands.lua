-- Bands and the two indexes of a view: which domains have work, and which is next.
-- Guarantee: a domain with entries of spider S is, for each view V of it (see `views`; mostly one, called
--   S), in one of `w:V` (waiting, by next allowed time), `r:V` (ready, by best priority) and `p:V`
--   (parked: its rule allows nothing), one without in none. The indexes are hints; `lease` checks the
--   domain's own state. An empty band, or one of a paused crawl, is found in its turn and leaves the index
--   then; `revisit` brings back those of a resumed crawl. While work is
--   due for S, or will be, some sleeping worker of S knows when, unless none sleeps.
-- Band  `b:<S>:<tag>:<domain>` LIST, tag = `<crawl number>/<priority>`: entries, FIFO; of a long one the
--   first (see `parts`). A domain has
--   64 per crawl (`admit`), and one more for each spider that came later.
-- Index `o:<S>` HASH domain -> its one tag; `*` if it has several (then `q:<S>:<domain>` ZSET by
--   priority, then turn). The priority of a tag is the one its entries came with; its standing (effective
--   priority), by which it is ranked, adds the present shift of the crawl.
-- `shifts` HASH crawl number -> shift of its priorities; reprioritized runs only.
-- `v` ZSET: domains that ran empty, by the time when their throttle state may be spent; `tend`
--   deletes it.
-- The last band of a domain has the priorities up to LAST_BAND (`waste.last_band`): they are leased
--   when nothing else waits there. Among domains it ranks by its *claim*, the priority that its entries had before.
-- Sleepers `z:<V>` ZSET worker by the time of its next call without a wake-up.
-- Needs: clock, ledger, views, throttle.
local PRIORITY_UNIT = 2 ^ 40
local LAST_BAND = -7500
local PROMOTED_WITHIN, PROMOTED = 17, 18  -- See `inlinks`.
local domain_tags = { SEVERAL = '*', MOST_DROPS = 100, drop = false, first = false, prune = false }  -- See its file.

local function rank(priority)
  return int(-priority * PRIORITY_UNIT + next_turn())
end

local function priority_of(score)
  return math.ceil(-score / PRIORITY_UNIT)
end

local tag_cache = {}

-- Return the crawl number and priority of a tag.
local function split_tag(tag)
  local parts = tag_cache[tag]
  if not parts then
    local c, priority = string.match(tag, '^(%d+)/(-?%d+)$')
    parts = { c, tonumber(priority) }
    tag_cache[tag] = parts
  end
  return parts[1], parts[2]
end

local lots, lots_of_view = {}, {}

-- Return the lot of one view and tag: the data that its entries share.
local function lot_of(V, tag)
  local of_view = lots_of_view[V] or {}
  local lot = of_view[tag]
  if not lot then
    local c, priority = split_tag(tag)
    lot = { view = V, spider = spider_of(V), tag = tag, c = c, priority = priority, taken = 0, ended = 0 }
    lots_of_view[V], of_view[tag], lots[#lots + 1] = of_view, lot, lot
  end
  return lot
end

local shifts

-- Return the shift of the priorities of crawl c.
local function shift_of(c)
  if shifts == nil then
    shifts = redis.call('EXISTS', K.shifts) == 1 and {} or false
  end
  if not shifts then
    return 0
  end
  shifts[c] = shifts[c] or tonumber(redis.call('HGET', K.shifts, c) or 0)
  return shifts[c]
end

-- Return the crawl number of a tag, and its effective priority.
local function standing(tag)
  local c, priority = split_tag(tag)
  return c, priority + shift_of(c)
end

-- Return how far promotion within its domain has raised a band.
local function promoted_within(tag)
  local TENS = 10
  local c, priority = split_tag(tag)
  return priority > LAST_BAND and priority % TENS == PROMOTED_WITHIN % TENS and crawl_of(c).is_scored
    and PROMOTED_WITHIN or 0
end

-- Return the claim of a band, by which its domain is ranked among others. Shifts are small.
local function claim_of(standing_of_band, tag)
  local STEPS, LAST, MOST_SHIFT = 100, -7900, 1000
  if standing_of_band > LAST_BAND + MOST_SHIFT then
    return has_scored and standing_of_band - promoted_within(tag) or standing_of_band
  end
  local _, priority = split_tag(tag)
  return standing_of_band + (priority > LAST_BAND and 0 or STEPS * (priority - LAST) - priority)
end

-- Return true if entries of crawl c may be leased. An expired run stays expired, even if the
-- machine's clock goes back: its bands leave the index, and nothing would bring them back.
local function may_lease(c)
  local crawl = crawl_of(c)
  if is_open(c) then
    return not crawl.paused
      and (not crawl.context or standings().may_lease(crawl))
  end
  if crawl.state == 'running' and not crawl.is_late then
    crawl.is_late = true
    if crawl.budgets then
      look_at_budgets(c, crawl, {})
    end
    redis.call('ZADD', K.expiry, '0', c)
    wake_tend_by(now)
  end
  return false
end

-- Return true if crawl c may be leased from once its coordinator has confirmed it: its bands stay in the index.
local function waits_for_coordinator(c)
  local crawl = crawl_of(c)
  return crawl.context and is_open(c) and not crawl.paused and standings().is_unconfirmed(crawl.context)
end

-- Return the loaded state of a domain in a view.
local function state_of(V, domain)
  return state_cache[scope == '' and domain or key_of(V, domain)]
end

local newly_ready, earliest_due = {}, {}

-- Note that work of a view falls due at `at`: a worker that would sleep longer must be woken.
local function note_due(V, at)
  earliest_due[V] = math.min(earliest_due[V] or at, at)
end

-- Wake up to `sleepers` workers of a view, beginning with those that would sleep longest. If no worker
-- listens under a name any more, the next one is taken.
local function wake(V, sleepers)
  while sleepers > 0 do
    local asleep = redis.call('ZPOPMAX', K.asleep(V), sleepers)
    if #asleep == 0 then
      return
    end
    for i = 1, #asleep, 2 do
      sleepers = sleepers - math.min(redis.call(PUBLISH, K.wake_channel(asleep[i]), '1'), 1)
    end
  end
end

-- Wake sleeping workers for the work that this script made due; one per 8 domains that became ready.
local function wake_workers()
  local DOMAINS_A_SLEEPER, EARLY_MS = 8, 20
  for V, domains in pairs(newly_ready) do
    local ready = redis.call('ZCARD', K.ready(V))
    wake(V, math.ceil(math.min(domains, ready) / DOMAINS_A_SLEEPER))
  end
  for V, due in pairs(earliest_due) do
    local first = redis.call('ZRANGE', K.asleep(V), 0, 0, 'WITHSCORES')[2]
    if first and tonumber(first) > due + EARLY_MS then
      wake(V, 1)
    end
  end
end

-- Return the earliest time of a domain's next request in a view by its state; `lease` makes the decision.
local function earliest(V, domain)
  local states = load_states({ key_of(V, domain) })
  local state = states[1]
  if state.is_new or not rules_known then
    return now
  end
  join_rules({ domain }, states)
  local allowed, later = allowance(state)
  return (allowed > 0 or state.rule.hits == 0) and now or later
end

-- Return the ms until more work of a view is due: 0 now, -1 never.
local function next_due_in(V)
  if redis.call('ZCARD', K.ready(V)) > 0 then
    return 0
  end
  local waiting = redis.call('ZRANGE', K.waiting(V), 0, 0, 'WITHSCORES')[2]
  local delayed = redis.call('ZRANGE', K.delayed_crawls(spider_of(V)), 0, 0, 'WITHSCORES')[2]
  local due = math.min(tonumber(waiting or FOREVER), tonumber(delayed or FOREVER))
  return due < FOREVER and math.max(due - now, 0) or -1
end

local known_spiders = {}

-- Note that S has entries.
local function know_spider(S)
  if known_spiders[S] then
    return
  end
  known_spiders[S] = true
  if redis.call('SADD', K.spiders, S) == 1 then
    pad(K.tags(S))
    for _, V in ipairs(views_of(S)) do
      redis.call('ZADD', K.waiting(V), int(FOREVER), PADDING)
    end
  end
end

-- Note a view that a worker uses: if it is new, `revise` fills it.
local function know_view(V)
  if is_by_group and redis.call('HSET', K.views(spider_of(V)), V, int(now)) == 1 then
    redis.call('ZADD', K.waiting(V), int(FOREVER), PADDING)
    redis.call('HSET', K.revise, V, 'o 0')
    wake_tend_by(now)
  end
end

-- Index a domain that had no entries of S, ranked by a standing. Views that have not yet noticed
-- that it had none may have it in two indexes for a while: `lease` checks its state.
local function enter(S, domain, tag, priority)
  know_spider(S)
  redis.call('HSET', K.tags(S), domain, tag)
  for _, V in ipairs(views_of(S)) do
    local due = earliest(V, domain)
    if due > now then
      redis.call('ZADD', K.waiting(V), int(due), domain)
      note_due(V, due)
    else
      redis.call('ZADD', K.ready(V), rank(claim_of(priority, tag)), domain)
      newly_ready[V] = (newly_ready[V] or 0) + 1
    end
  end
end

-- Note domains of a view that ran empty: `tend` deletes their states when these are spent.
local function forget_later(V, domains)
  local known, states, n = {}, {}, 0
  for i, state in ipairs(load_states(keys_of(V, domains))) do
    if not state.is_new or changed_states[state.key] then
      n = n + 1
      known[n], states[n] = domains[i], state
    end
  end
  if n == 0 then
    return
  end
  join_rules(known, states)
  local args = {}
  for i = 1, n do
    args[2 * i - 1], args[2 * i] = int(math.max(spent_at(states[i]), now)), states[i].key
  end
  redis.call('ZADD', K.spent, 'NX', unpack(args))
end

-- Remove domains without entries of the spider; they are in no index of view V.
local function leave(V, domains)
  redis.call('HDEL', K.tags(spider_of(V)), unpack(domains))
  forget_later(V, domains)
end

-- Check a domain again: parked or waiting, it is due now, and `lease` decides by the rules.
local function look_again(V, domain)
  if redis.call('SREM', K.parked(V), domain) == 1 then
    redis.call('ZADD', K.waiting(V), int(now), domain)
    note_due(V, now)
  elseif redis.call('ZADD', K.waiting(V), 'XX', 'LT', 'CH', int(now), domain) == 1 then
    note_due(V, now)
  end
end

-- Rank a ready domain by a better claim.
local function raise(S, domain, claim)
  for _, V in ipairs(views_of(S)) do
    local score = rank(claim)
    redis.call('ZADD', K.ready(V), 'XX', 'LT', score, domain)
    local gate = gates and gates.of({ domain })[1]
    if gate then
      gates.inside().changes().raise(V, gate, domain, score)
    end
  end
end

-- Index a band that has entries and was not in the index; `priority` is its standing.
local function index_band(S, domain, tag, priority)
  local o = redis.call('HGET', K.tags(S), domain)
  if o == tag then
    return
  end
  if not o then
    return enter(S, domain, tag, priority)
  end
  local q = K.several(S, domain)
  if o ~= domain_tags.SEVERAL then
    local _, other = standing(o)
    redis.call('ZADD', q, rank(other), o)
    redis.call('HSET', K.tags(S), domain, domain_tags.SEVERAL)
  end
  redis.call('ZADD', q, 'NX', rank(priority), tag)
  raise(S, domain, claim_of(priority, tag))
end

-- Rank a band, which may be in the index and may be empty, by its present standing. A domain's own rank is
-- only raised: one that is too high is corrected in its turn.
local function rank_band(S, domain, tag)
  local _, priority = standing(tag)
  redis.call('ZADD', K.several(S, domain), 'XX', rank(priority), tag)
  raise(S, domain, claim_of(priority, tag))
end

--- include: parts

-- Append entries to a band, or put them in front of it.
local function push(S, domain, tag, priority, entries, in_front)
  if not in_front and crawl_of(split_tag(tag)).parts and append_to_tail(S, tag, domain, entries, 1, #entries) then
    return
  end
  local length = redis.call(in_front and 'LPUSH' or 'RPUSH', K.band(S, tag, domain), unpack(entries))
  if length == #entries then
    index_band(S, domain, tag, priority + shift_of(split_tag(tag)))
  end
end

--- include: delays
--- include: domain_tags
--- include: finish
