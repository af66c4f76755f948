-- The one way out: entries that may be asked for now, to one worker.
-- Guarantee: a higher priority always wins, across domains and within one; equal crawls of a domain
--   and equal domains take turns; no domain gets more than its allowance. Nothing is popped for
--   good: each entry is a hold in the same script.
-- Needs: clock, ledger, throttle, bands, holds. Cost: O(log D) a granted entry.
local MAX_PASSES = 8
local PROMOTE_AT_LEAST = 64

local lots = {}

-- What the entries of one tag have in common while this script runs.
local function lot_of(S, tag)
  local lot = lots[tag]
  if not lot then
    local c, priority = split_tag(tag)
    lot = { c = c, priority = priority, standing = priority + shift_of(c), is_open = may_lease(c),
      band = band_key(S, tag, ''), hold = hold_head(now, tag, S), taken = 0 }
    lots[tag] = lot
  end
  return lot
end

-- The holds that an earlier call with this number was granted (its reply was lost).
local function granted_before(worker, call)
  local granted = {}
  local holds = all_holds(worker)
  for i = #holds, 1, -1 do
    local hold = holds[i]
    if hold.call == call then
      granted[#granted + 1] = { hold.token, hold.c, hold.domain, hold.priority, hold.entry }
    end
  end
  return granted
end

-- Best standing in a domain that `o` says has entries.
local function top_of(S, domain, o)
  return lot_of(S, first_tag(S, domain, o)).standing
end

-- Domains whose time has come leave the waiting index.
local function promote_due(S, limit)
  local due = redis.call('ZRANGE', P .. 'w:' .. S, '-inf', int(now), 'BYSCORE', 'LIMIT', 0, limit)
  local promoted = {}
  if #due == 0 then
    return promoted
  end
  local o = redis.call('HMGET', P .. 'o:' .. S, unpack(due))
  for i = 1, #due do
    if o[i] then
      local top = top_of(S, due[i], o[i])
      promoted[#promoted + 1] = { domain = due[i], o = o[i], claim = top, top = top, equals = 1 }
    end
  end
  redis.call('ZREM', P .. 'w:' .. S, unpack(due))
  return promoted
end

local function by_claim(a, b)
  return a.claim > b.claim
end

local function pop_ready(S, want)
  local popped = redis.call('ZPOPMIN', P .. 'r:' .. S, want)
  local list, domains = {}, {}
  for i = 1, #popped, 2 do
    domains[#domains + 1] = popped[i]
  end
  if #domains == 0 then
    return list
  end
  local o = redis.call('HMGET', P .. 'o:' .. S, unpack(domains))
  for i = 1, #domains do
    if o[i] then
      local score = popped[2 * i]
      list[#list + 1] = { domain = domains[i], o = o[i], score = score, claim = priority_of(score),
        top = top_of(S, domains[i], o[i]), equals = 1 }
    end
  end
  return list
end

-- The next domains to serve, best claim first: due ones directly while nothing else is ready.
local function candidates(S, want)
  local promoted = promote_due(S, math.max(2 * want, PROMOTE_AT_LEAST))
  if #promoted > 0 and #promoted <= want and redis.call('ZCARD', P .. 'r:' .. S) == 0 then
    table.sort(promoted, by_claim)
    return promoted
  end
  if #promoted > 0 then
    local args = {}
    for i = 1, #promoted do
      args[#args + 1] = rank(promoted[i].claim)
      args[#args + 1] = promoted[i].domain
    end
    redis.call('ZADD', P .. 'r:' .. S, unpack(args))
  end
  return pop_ready(S, want)
end

-- For each candidate how many from it on claim the same priority: they share what is left.
local function count_equals(list)
  for i = #list - 1, 1, -1 do
    if list[i].claim == list[i + 1].claim then
      list[i].equals = list[i + 1].equals + 1
    end
  end
end

-- Whether somebody else has something better than candidate i, whose claim may be out of date.
local function is_outranked(S, list, i, pass)
  local top = list[i].top
  if pass.best and pass.best > top then
    return true
  end
  if top == list[i].claim then
    return false
  end
  if list[i + 1] then
    return list[i + 1].claim > top
  end
  local first = redis.call('ZRANGE', P .. 'r:' .. S, 0, 0, 'WITHSCORES')
  return first[2] and priority_of(first[2]) > top
end

-- A domain stays ready: at its old rank if it was not served, else behind its equals.
local function stay_ready(pass, domain, top, score)
  pass.ready[#pass.ready + 1] = score or rank(top)
  pass.ready[#pass.ready + 1] = domain
  pass.best = math.max(pass.best or top, top)
end

local function wait_until(pass, domain, at)
  pass.waiting[#pass.waiting + 1] = int(at)
  pass.waiting[#pass.waiting + 1] = domain
end

-- The rule of a domain allows nothing: it is out of the way until its rule changes.
local function park(S, domain, o)
  o = prune(S, domain, o)
  if o then
    redis.call('SADD', P .. 'p:' .. S, domain)
  else
    leave(S, domain)
  end
end

-- Give up to `want` entries of a band to `take`; answers how many there were.
local function pop_band(lot, domain, want, take)
  if not lot.is_open then
    return 0
  end
  if want == 1 then
    local entry = redis.call('LPOP', lot.band .. domain)
    if entry then
      take(lot, domain, entry)
    end
    return entry and 1 or 0
  end
  local entries = redis.call('LPOP', lot.band .. domain, int(want)) or {}
  for i = 1, #entries do
    take(lot, domain, entries[i])
  end
  return #entries
end

-- Pop up to `limit` entries of a domain, all of the standing `top` that it is a candidate for, equal
-- crawls in turn, and give each to `take`. Answers how many, and what `o` says from now on (nil:
-- nothing is left). Bands without anything to lease leave the index, a bounded number in one go.
local function pop(S, candidate, limit, take)
  local popped, dropped, domain, o = 0, 0, candidate.domain, candidate.o
  while popped < limit and o and dropped < DROPS_A_DOMAIN do
    local tag = first_tag(S, domain, o)
    local lot = lot_of(S, tag)
    if lot.standing < candidate.top then
      break
    end
    local want = o == SEVERAL and 1 or limit - popped
    local found = pop_band(lot, domain, want, take)
    popped = popped + found
    if found < want then
      o, dropped = drop_tag(S, domain, o, tag), dropped + 1
    elseif o == SEVERAL then
      redis.call('ZADD', P .. 'q:' .. S .. ':' .. domain, rank(lot.standing), tag)
    end
  end
  return popped, o
end

-- Grant up to `limit` entries of one candidate; answers how many.
local function serve(S, candidate, rule, limit, pass)
  local domain = candidate.domain
  local state = state_cache[domain]
  if rule.hits == 0 then
    park(S, domain, candidate.o)
    return 0
  end
  local allowed, later = allowance(state, rule)
  if allowed == 0 then
    wait_until(pass, domain, later)
    return 0
  end
  local granted, o = pop(S, candidate, math.min(allowed, limit), pass.take)
  later = now
  if granted > 0 then
    grant(domain, state, granted)
    later = next_grant(state, rule, allowed - granted)
  end
  if not o then
    leave(S, domain)
  elseif later <= now then
    stay_ready(pass, domain, top_of(S, domain, o))
  else
    wait_until(pass, domain, later)
  end
  return granted
end

-- One pass over the best candidates; answers how many entries were granted, and whether there were
-- any candidates.
local function serve_pass(S, want, take)
  local list = candidates(S, want)
  if #list == 0 then
    return 0, false
  end
  local domains = {}
  for i = 1, #list do
    domains[i] = list[i].domain
  end
  load_states(domains)
  local rules = rules_of(domains)
  count_equals(list)
  local granted, pass = 0, { ready = {}, waiting = {}, take = take }
  for i = 1, #list do
    local candidate = list[i]
    if granted >= want or is_outranked(S, list, i, pass) then
      stay_ready(pass, candidate.domain, candidate.top,
        candidate.top == candidate.claim and candidate.score)
    else
      local share = math.max(math.floor((want - granted) / candidate.equals), 1)
      granted = granted + serve(S, candidate, rules[i], share, pass)
    end
  end
  if #pass.ready > 0 then
    redis.call('ZADD', P .. 'r:' .. S, unpack(pass.ready))
  end
  if #pass.waiting > 0 then
    redis.call('ZADD', P .. 'w:' .. S, unpack(pass.waiting))
  end
  return granted, true
end

-- A worker that got less than it wanted sleeps until the next thing is due; another one does not.
local function note_asleep(S, worker, is_asleep, due_in)
  if is_asleep then
    local until_ms = due_in < 0 and FOREVER or now + due_in
    redis.call('ZADD', P .. 'z:' .. S, int(until_ms), worker)
    redis.call('HSET', P .. 'h:' .. worker, '@', S)
  else
    redis.call('ZREM', P .. 'z:' .. S, worker)
  end
  if due_in >= 0 then
    note_due(S, now + due_in)
  end
end

local function lease_new(S, worker, call, want)
  promote_delayed(S, math.max(2 * want, PROMOTE_AT_LEAST))
  local granted, held = {}, { '!', int(call) }
  local first, n = int(call) .. '-', 0
  local function take(lot, domain, entry)
    n, lot.taken = n + 1, lot.taken + 1
    local token = first .. int(n)
    granted[n] = { token, lot.c, domain, lot.priority, entry }
    held[2 * n + 1], held[2 * n + 2] = token, pack_hold(lot.hold, domain, entry)
  end
  for _ = 1, MAX_PASSES do
    local _, any = serve_pass(S, want - n, take)
    if not any or n >= want then
      break
    end
  end
  if n > 0 then
    redis.call('HSET', P .. 'h:' .. worker, unpack(held))
  end
  for _, lot in pairs(lots) do
    count(lot.c, 'queued', -lot.taken)
    count(lot.c, 'held', lot.taken)
  end
  return granted
end

local function lease(S, worker, call, want)
  local granted, is_repeated = {}, false
  if want > 0 and rules_known then
    is_repeated = call <= tonumber(redis.call('HGET', P .. 'h:' .. worker, '!') or 0)
    granted = is_repeated and granted_before(worker, call) or lease_new(S, worker, call, want)
  end
  local due_in = is_repeated and 0 or rules_known and next_due_in(S) or -1
  note_asleep(S, worker, #granted < want and not is_repeated, due_in)
  return granted, due_in
end

-- What a worker needs to know of the crawls of its holds, and of the profiles they name.
local function context_of(granted)
  local crawls, profiles = {}, {}
  for i = 1, #granted do
    local c, number = granted[i][2], string.match(granted[i][5], '^%d+')
    if not crawls[c] then
      local crawl = crawl_of(c)
      crawls[c] = { crawl.name, tonumber(crawl.run), crawl.recovered or false }
    end
    local profile = c .. '/' .. number
    if not profiles[profile] then
      profiles[profile] = redis.call('HGET', P .. 'f:' .. c, number) or ''
    end
  end
  return crawls, profiles
end
