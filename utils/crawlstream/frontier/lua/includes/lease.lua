-- The one way out: entries that may be asked for now, to one worker.
-- Guarantee: a higher priority always wins, across domains and within one; equal crawls of a domain
--   and equal domains take turns; no domain gets more than its allowance. Nothing is popped for
--   good: each entry is a hold in the same script.
-- Needs: clock, ledger, throttle, bands, holds. Cost: O(log D) a granted entry.
local MAX_PASSES = 8

-- The holds that an earlier call with this number was granted (its reply was lost).
local function granted_before(worker, call)
  local granted = {}
  local all = redis.call('HGETALL', P .. 'h:' .. worker)
  for i = 1, #all, 2 do
    if string.match(all[i], '^%d+') == int(call) then
      local hold = parse_hold(all[i], all[i + 1])
      granted[#granted + 1] = { hold.token, hold.c, hold.domain, hold.priority, hold.entry }
    end
  end
  return granted
end

-- A domain without entries: forget it once its throttle state holds nothing back any more.
local function settle_empty(S, domain, state, rule)
  local at = spent_at(state, rule)
  if at <= now then
    redis.call('HDEL', P .. 'o:' .. S, domain)
    redis.call('HDEL', P .. 't', domain)
    redis.call('ZREM', P .. 'w:' .. S, domain)
    changed_states[domain], state_cache[domain] = nil, nil
  else
    redis.call('ZADD', P .. 'w:' .. S, int(at), domain)
  end
end

-- Domains whose time has come leave the waiting index.
local function promote_due(S, limit)
  local due = redis.call('ZRANGE', P .. 'w:' .. S, '-inf', int(now), 'BYSCORE', 'LIMIT', 0, limit)
  local promoted, empty = {}, {}
  if #due == 0 then
    return promoted
  end
  local o = redis.call('HMGET', P .. 'o:' .. S, unpack(due))
  for i = 1, #due do
    local priority = top_priority(S, due[i], o[i])
    if priority then
      promoted[#promoted + 1] = { domain = due[i], o = o[i], claim = priority }
    else
      empty[#empty + 1] = due[i]
    end
  end
  redis.call('ZREM', P .. 'w:' .. S, unpack(due))
  if #empty > 0 then
    load_states(empty)
    local rules = rules_of(empty)
    for i = 1, #empty do
      settle_empty(S, empty[i], state_cache[empty[i]], rules[i])
    end
  end
  return promoted
end

local function by_claim(a, b)
  return a.claim > b.claim
end

-- The next domains to serve, best claim first: due ones directly while nothing else is ready.
local function candidates(S, want)
  local promoted = promote_due(S, 2 * want)
  local ready = P .. 'r:' .. S
  if #promoted > 0 and #promoted <= want and redis.call('ZCARD', ready) == 0 then
    table.sort(promoted, by_claim)
    return promoted
  end
  if #promoted > 0 then
    local args = {}
    for i = 1, #promoted do
      args[#args + 1] = rank(promoted[i].claim)
      args[#args + 1] = promoted[i].domain
    end
    redis.call('ZADD', ready, unpack(args))
  end
  local popped = redis.call('ZPOPMIN', ready, want)
  local list, domains = {}, {}
  for i = 1, #popped, 2 do
    domains[#domains + 1] = popped[i]
    list[#list + 1] = { domain = popped[i], claim = math.ceil(-popped[i + 1] / PRIORITY_UNIT) }
  end
  if #domains > 0 then
    local o = redis.call('HMGET', P .. 'o:' .. S, unpack(domains))
    for i = 1, #list do
      list[i].o = o[i] or ''
    end
  end
  return list
end

-- Whether somebody else claims more than this candidate really has.
local function is_outranked(S, list, i, top)
  if list[i + 1] then
    return list[i + 1].claim > top
  end
  local first = redis.call('ZRANGE', P .. 'r:' .. S, 0, 0, 'WITHSCORES')
  return first[2] and math.ceil(-first[2] / PRIORITY_UNIT) > top
end

-- Candidates from i on that claim the same priority: they share what is left.
local function equals_from(list, i)
  local equals = 1
  while list[i + equals] and list[i + equals].claim == list[i].claim do
    equals = equals + 1
  end
  return equals
end

-- Where a served domain goes next.
local function place(S, candidate, state, rule, o)
  local later = next_grant(state, rule)
  local top = later <= now and top_priority(S, candidate.domain, o)
  if top then
    redis.call('ZADD', P .. 'r:' .. S, rank(top), candidate.domain)
  else
    redis.call('ZADD', P .. 'w:' .. S, int(math.max(later, now)), candidate.domain)
  end
end

-- Grant up to `limit` entries of one candidate; answers how many.
local function serve(S, candidate, rule, limit, take)
  local domain = candidate.domain
  local state = state_cache[domain]
  if candidate.o == '' then
    settle_empty(S, domain, state, rule)
    return 0
  end
  if rule.hits == 0 then
    redis.call('SADD', P .. 'p:' .. S, domain)
    return 0
  end
  local allowed, later = allowance(state, rule)
  if allowed == 0 then
    redis.call('ZADD', P .. 'w:' .. S, int(later), domain)
    return 0
  end
  local popped, o = pop(S, domain, candidate.o, math.min(allowed, limit))
  local entries = #popped / 2
  if entries == 0 then
    settle_empty(S, domain, state, rule)
    return 0
  end
  for i = 1, #popped, 2 do
    take(domain, popped[i], popped[i + 1])
  end
  grant(domain, state, entries)
  place(S, candidate, state, rule, o)
  return entries
end

-- One pass over the best candidates; answers how many entries were granted and whether there were any.
local function serve_pass(S, want, take)
  local list = candidates(S, want)
  local domains = {}
  for i = 1, #list do
    domains[i] = list[i].domain
  end
  if #domains == 0 then
    return 0, false
  end
  load_states(domains)
  local rules = rules_of(domains)
  local granted = 0
  for i = 1, #list do
    local candidate = list[i]
    local top = top_priority(S, candidate.domain, candidate.o)
    if top and (granted >= want or (top < candidate.claim and is_outranked(S, list, i, top))) then
      redis.call('ZADD', P .. 'r:' .. S, rank(top), candidate.domain)
    else
      local share = math.max(math.floor((want - granted) / equals_from(list, i)), 1)
      granted = granted + serve(S, candidate, rules[i], share, take)
    end
  end
  return granted, true
end

-- How long nothing more will be due for S; -1: nothing waits at all.
local function next_due_in(S)
  local first = redis.call('ZRANGE', P .. 'w:' .. S, 0, 0, 'WITHSCORES')[2]
  local delayed = redis.call('ZRANGE', P .. 'y:' .. S, 0, 0, 'WITHSCORES')[2]
  local due = math.min(tonumber(first or 1e18), tonumber(delayed or 1e18))
  if redis.call('ZCARD', P .. 'r:' .. S) > 0 then
    due = now
  end
  return due < 1e18 and math.max(due - now, 0) or -1
end

local function lease(S, worker, call, want)
  if want <= 0 then
    return {}, next_due_in(S)
  end
  local key = P .. 'h:' .. worker
  if call <= tonumber(redis.call('HGET', key, '!') or 0) then
    return granted_before(worker, call), 0
  end
  promote_delayed(S, 2 * want)
  local granted, held = {}, { '!', int(call) }
  local function take(domain, tag, entry)
    local c, priority = split_tag(tag)
    local token = int(call) .. '-' .. int(#granted + 1)
    granted[#granted + 1] = { token, c, domain, priority, entry }
    held[#held + 1] = token
    held[#held + 1] = hold_text({ since = now, flags = 0, tag = tag, spider = S, domain = domain,
      entry = entry })
    count(c, 'queued', -1)
    count(c, 'held', 1)
  end
  for _ = 1, MAX_PASSES do
    if #granted >= want then
      break
    end
    local _, any = serve_pass(S, want - #granted, take)
    if not any then
      break
    end
  end
  if #granted > 0 then
    redis.call('HSET', key, unpack(held))
    redis.call('ZREM', P .. 'z:' .. S, worker)
    if redis.call('ZCARD', P .. 'r:' .. S) > 0 then
      wake(S, 1)
    end
  else
    redis.call('ZADD', P .. 'z:' .. S, int(now), worker)
  end
  return granted, next_due_in(S)
end

-- What a worker needs to know of the crawls of its holds, and of the profiles they name.
local function context_of(granted)
  local crawls, profiles = {}, {}
  for i = 1, #granted do
    local c, number = granted[i][2], string.match(granted[i][5], '^...(%d+),')
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
