-- Leasing: grants entries that may be fetched now to one worker; no other code does.
-- Guarantee: a higher priority always wins, within a domain and (by claims, see `bands`) across them; equal
--   crawls of a domain and equal domains take turns; no domain gets more than its allowance. Nothing is popped without
--   a lease: each entry gets one in the same script. A turn is one entry, or several if the
--   rule allows them and a large batch is requested. An answer has up to 4 MiB, plus up to 16 entries.
-- Needs: clock, ledger, views, throttle, bands, holds, grants. Cost: O(log D) per granted entry.
local lease
local unconfirmed = {}  -- Contexts that have entries, and need a label from their coordinator.

-- A block hides the following names: a function in Lua has 200 names at most.
do
local MAX_PASSES = 8
local PROMOTE_AT_LEAST = 64
local LARGE_BATCH, SPREAD, ENTRIES_A_TURN = 50, 12, 8
local RECHECK_STATE_MS = 60000
local PORTION = 16
local spares_left = 128  -- Entries of a call: they cost Redis as much as granted ones.

local offers = {}  -- by tag
local spares_of  -- Numbers of spare entries that are requested, by domain; nil: none.

-- Return the lot of a tag of V, with the data for leasing from it.
local function offer_of(V, tag)
  local lot = offers[tag]
  if not lot then
    lot = lot_of(V, tag)
    lot.standing, lot.is_open = lot.priority + shift_of(lot.c), may_lease(lot.c)
    lot.claim = claim_of(lot.standing, tag)
    lot.band, lot.has_parts = K.band(lot.spider, tag, ''), crawl_of(lot.c).parts
    lot.waits = not lot.is_open and waits_for_coordinator(lot.c)
    unconfirmed[lot.c] = lot.waits or nil
    offers[tag] = lot
  end
  return lot
end

-- Return the claim of the best band in a domain that has entries by `o`.
local function top_of(V, domain, o)
  local lot = offers[o] or offer_of(V, domain_tags.first(V, domain, o))
  return lot.claim
end

--- include: rounds

-- Return true if another domain, the next of the round or of `r`, has a better claim than one whose claim changed.
local function is_outranked(V, round, group, left, top)
  local claim = left > 1 and round.claims[group] or round.claims[group + 1]
  if claim then
    return claim > top
  end
  local behind = round.behind or #round.domains
  local first = redis.call('ZRANGE', K.ready(V), behind, behind, 'WITHSCORES')
  return first[2] and priority_of(first[2]) > top
end

-- Note that a domain is in no index, or in another one than before.
local function go(round, domain)
  round.gone[#round.gone + 1] = domain
end

-- Keep a domain ready, behind its equals.
local function stay_ready(round, domain, top)
  local ready, ranks = round.ready, round.ranks
  local n = #ready
  if not ranks[top] then
    ranks[top] = rank(top)
  end
  ready[n + 1], ready[n + 2] = ranks[top], domain
  if not round.best or top > round.best then
    round.best = top
  end
  if round.is_due then
    go(round, domain)
  end
end

local function wait_until(round, domain, at)
  local waiting = round.waiting
  local n = #waiting
  waiting[n + 1], waiting[n + 2] = int(at), domain
  if not round.is_due then
    go(round, domain)
  end
end

-- Park a domain whose rule allows nothing, until its rule changes.
local function park(V, round, domain, o)
  if domain_tags.prune(V, domain, o) then
    redis.call('SADD', K.parked(V), domain)
  else
    leave(V, { domain })
  end
  go(round, domain)
end

-- Take up to `limit` entries of a band; return their number, and whether more may be left.
local function pop_band(lot, domain, limit, is_spare)
  local popped = 0
  while lot.is_open and popped < limit and not is_heavy() do
    local portion = math.min(limit - popped, PORTION)
    local entries = redis.call('LPOP', lot.band .. domain, portion) or {}
    popped = popped + take(lot, domain, entries, is_spare)
    if #entries < portion and not (lot.has_parts and band_parts().refill(lot.spider, lot.tag, domain)) then
      return popped, false
    end
  end
  if lot.has_parts then
    band_parts().ask(lot.spider, lot.tag, domain)
  end
  return popped, lot.is_open
end

-- Pop up to `limit` entries of a domain with several bands, all of the standing `top`, equal crawls in
-- turn. Bands without anything to lease leave the index, a bounded number per call. Return the number of
-- entries, and the new value of `o` (nil: nothing is left).
local function pop_several(V, domain, top, limit, is_spare)
  local popped, dropped, o = 0, 0, domain_tags.SEVERAL
  while popped < limit and o and dropped < domain_tags.MOST_DROPS and not is_heavy() do
    local lot = offer_of(V, domain_tags.first(V, domain, o))
    if lot.standing < top then
      break
    end
    local share = o == domain_tags.SEVERAL and 1 or limit - popped
    local found, may_have_more = pop_band(lot, domain, share, is_spare)
    popped = popped + found
    if not may_have_more then
      if lot.waits then
        home_waits().note_dropped(lot.c)
      end
      o, dropped = domain_tags.drop(V, domain, o, lot.tag), dropped + 1
    elseif o == domain_tags.SEVERAL then
      redis.call('ZADD', K.several(spider_of(V), domain), rank(lot.standing), lot.tag)
    end
  end
  return popped, o
end

local function pop_some(V, domain, o, lot, limit, is_spare)
  if o == domain_tags.SEVERAL then
    return pop_several(V, domain, lot.standing, limit, is_spare)
  end
  local popped, may_have_more = pop_band(lot, domain, limit, is_spare)
  return popped, may_have_more and o or nil
end

-- Lease the spare entries that are requested of a domain, once a call; return the new value of `o`.
local function pop_spares(V, domain, o)
  local amount, popped = spares_of and spares_of[domain], nil
  if not (o and amount) or spares_left == 0 then
    return o
  end
  spares_of[domain] = nil
  local lot = offers[o] or offer_of(V, domain_tags.first(V, domain, o))
  if lot.is_open then
    popped, o = pop_some(V, domain, o, lot, math.min(amount, spares_left), true)
    spares_left = spares_left - popped
  end
  return o
end

-- Grant up to `limit` entries of candidate i, whose first lot is `lot`; return their number.
local function serve(V, round, i, lot, limit)
  local domain, o, state = round.domains[i], round.o[i], round.states[i]
  if state.rule.hits == 0 then
    park(V, round, domain, o)
    return 0
  elseif lot.waits and o ~= domain_tags.SEVERAL then
    wait_until(round, domain, home_waits().ask_again_at(lot.c))
    return 0
  end
  -- Query one more than the limit, to know whether the domain may continue at once.
  local allowed, later = allowance(state, limit + 1)
  if allowed == 0 then
    wait_until(round, domain, later)
    return 0
  end
  allowed = round.gated and round.gated.limit(domain, allowed) or allowed
  if allowed == 0 then
    return 0
  end
  limit = allowed < limit and allowed or limit
  local granted
  granted, o = pop_some(V, domain, o, lot, limit)
  later = now
  if granted > 0 then
    later = grant(state, granted, allowed - granted)
    if round.gated then
      round.gated.pay(domain, granted)
    end
    if is_by_group then
      -- If another group empties the domain, no other code would delete this state.
      redis.call('ZADD', K.spent, 'NX', int(now + RECHECK_STATE_MS), state.key)
    end
    o = pop_spares(V, domain, o)
  end
  if not o then
    round.left[#round.left + 1] = domain
    go(round, domain)
  elseif later <= now then
    stay_ready(round, domain, o == lot.tag and lot.claim or top_of(V, domain, o))
  else
    wait_until(round, domain, later)
  end
  return granted
end

-- Serve candidates in their order, until `want` entries are granted. Those with equal priority
-- share the rest. Return the number granted.
local function serve_round(V, round, want)
  local granted, i = 0, 0
  for group = 1, #round.claims do
    local claim = round.claims[group]
    for left = round.sizes[group], 1, -1 do
      if granted >= want or is_heavy() then
        return granted
      end
      i = i + 1
      local domain, o = round.domains[i], round.o[i]
      local lot = offers[o] or offer_of(V, domain_tags.first(V, domain, o))
      local top = lot.claim
      local is_below = round.best and round.best > top
      if top ~= claim and (is_below or is_outranked(V, round, group, left, top)) then
        stay_ready(round, domain, top)
      elseif not is_below then
        local share = (want - granted) / left
        granted = granted + serve(V, round, i, lot, share > 1 and math.floor(share) or 1)
      end
    end
  end
  return granted
end

-- Serve the best candidates once, at most `limit`; return the number of granted entries,
-- and whether there were any candidates.
local function serve_pass(V, want, limit)
  local round = candidates(V, limit)
  if #round.domains == 0 then
    return 0, round.gated and round.gated.finish(V, round) or false
  end
  round.states = load_states(keys_of(V, round.domains))
  local is_gentle = join_rules(round.domains, round.states)
  local granted = serve_round(V, round, want)
  if is_gentle then
    gentle_sites = gentle_sites or {}
    for i, state in ipairs(round.states) do
      gentle_sites[round.domains[i]] = state.rule.gentle
    end
  end
  if #round.left > 0 then
    leave(V, round.left)
  end
  if round.gated then
    return granted, round.gated.finish(V, round)
  end
  if #round.gone > 0 then
    redis.call('ZREM', round.is_due and K.waiting(V) or K.ready(V), unpack(round.gone))
  end
  if #round.ready > 0 then
    redis.call('ZADD', K.ready(V), unpack(round.ready))
  end
  if #round.waiting > 0 then
    redis.call('ZADD', K.waiting(V), unpack(round.waiting))
  end
  return granted, true
end

-- Note that a worker sleeps until the next work is due, if it got less than it wanted; else that it does not.
local function note_asleep(V, worker, is_asleep, due_in)
  if is_asleep then
    local until_ms = due_in < 0 and FOREVER or now + due_in
    redis.call('ZADD', K.asleep(V), int(until_ms), worker)
    redis.call('HSET', K.holds(worker), '@', V)
  else
    redis.call('ZREM', K.asleep(V), worker)
  end
  if due_in >= 0 then
    note_due(V, now + due_in)
  end
end

local function lease_new(V, worker, call, want)
  delays.promote(spider_of(V), math.max(2 * want, PROMOTE_AT_LEAST))
  -- The cost of a turn is per domain. If most rules allow several entries at once, a large batch
  -- takes fewer domains than entries, but no fewer than SPREAD.
  local at_once = 1
  if want >= LARGE_BATCH and not table_rule_of(DEFAULT_RULE).moderated then
    at_once = math.min(math.floor(want / SPREAD), ENTRIES_A_TURN)
  end
  local left = want
  for _ = 1, MAX_PASSES do
    local limit = math.ceil(left / math.max(at_once, 1))
    local served, any = serve_pass(V, left, limit)
    left = left - served
    if not any or left <= 0 or is_heavy() then
      break
    end
    at_once = math.floor(served / limit)
  end
  save_grants(worker, call)
end

-- Grant up to `want` entries, and lease up to spares[domain] more without a grant, with those of a domain; return the
-- time when more is due.
function lease(V, worker, call, want, spares)
  local is_repeated = false
  spares_of = spares
  if not V then
    return -1
  end
  know_view(V)
  if want > 0 and rules_known then
    is_repeated = call <= tonumber(redis.call('HGET', K.holds(worker), '!') or 0)
    if is_repeated then
      repeat_grants(worker, call)
    else
      lease_new(V, worker, call, want)
    end
  end
  local due_in = is_repeated and 0 or rules_known and next_due_in(V) or -1
  note_asleep(V, worker, amount_granted() < want and not is_repeated, due_in)
  return due_in
end
end
