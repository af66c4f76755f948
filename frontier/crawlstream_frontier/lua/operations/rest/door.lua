#!lua flags=allow-oom
-- door: admit a scrape, the request of a client for one page at once, to its site; forget scrapes that have ended.
-- Guarantee: while pages of a lower priority wait for the site, scrapes start, evenly spaced, no more often than
--   `share` times its rule allows. They take at most that share of its concurrency, but at least one request. While
--   no such page waits they may use the whole rule, in bursts where it allows bursts: no scrape waits for a free site.
--   A client has at most `most` scrapes in progress. What is refused changes nothing. The door decides about fairness
--   alone: `lease` applies the rule, so a wrong or lost door overruns no window. A repeated call counts as a further
--   scrape, of which the client's bound knows only one.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 packed {ended, scrape}
--   ended  ids of scrapes that have ended; unknown ones are left out
--   scrape {site, client, id, share, latest ms until its start, ms until it is forgotten, most}; {}: none
-- Returns: packed {answer, ms, ms, date in epoch ms}
--   'ok': in how many ms it is likely to start, by the rule too; and in how many ms it may, by its share alone
--   'busy': after the first ms a call like this one would be admitted
--   'too_many' of this client; 'blocked': the rule allows nothing; 'unknown': there are no rules yet
--   '': there is no scrape
-- Cost: about thirteen commands, one or two for each spider, and three for each scrape that has ended.
--- include: clock
--- include: views
--- include: ledger
--- include: throttle
--- include: bands

local SPIDER, HIGHEST, LOOKS, BUSY_MS, KEPT_MS = 'link', 100, 16, 1000, 1000
local ended, scrape = unpack(cmsgpack.unpack(ARGV[1]))
local site, client, id, share, latest_ms, forgotten_ms, most = unpack(scrape)

-- Return true if a queue has pages that the scrapes of a site would overtake.
local function waits(S, tag)
  local c, priority = standing(tag)
  return priority < HIGHEST and is_open(c) and not crawl_of(c).paused
    and redis.call('EXISTS', K.band(S, tag, site)) == 1
end

-- Return true if other pages wait for the site. After many queues that have none, they are assumed to wait.
local function is_wanted()
  local looks = 0
  for _, S in ipairs(redis.call('SMEMBERS', K.spiders)) do
    local o = redis.call('HGET', K.tags(S), site)
    local tags = o == domain_tags.SEVERAL and redis.call('ZREVRANGE', K.several(S, site), 0, LOOKS) or { o or nil }
    for _, tag in ipairs(tags) do
      looks = looks + 1
      if looks > LOOKS or waits(S, tag) then
        return true
      end
    end
  end
  return false
end

-- Return the throttle state of the site.
local function state_of_site()
  local V = views_of(SPIDER)[1]
  local states = load_states({ V and key_of(V, site) or site })
  join_rules({ site }, states)
  return states[1]
end

-- Return the number of scrapes in progress in a list, without those that are overdue.
local function in_progress(key)
  redis.call('ZREMRANGEBYSCORE', key, '-inf', int(now))
  return redis.call('ZCARD', key)
end

-- Note a scrape in a list; its end may never be reported.
local function note(key)
  redis.call('ZADD', key, int(now + forgotten_ms), id)
  redis.call('PEXPIRE', key, int(math.max(forgotten_ms + KEPT_MS, redis.call('PTTL', key))))
end

-- Return the ms until the site may get a request, by its rule and what was sent.
local function site_opens_in(state)
  local allowed, at = allowance(state)
  local paused = math.max(state.rule.paused_until - wall, 0)
  return math.max(allowed > 0 and 0 or at - now, paused)
end

-- Return the ms until the scrape is likely to start, those until it may, and the virtual time of the next one.
local function place_of(state, wanted)
  local rule = state.rule
  local interval = math.ceil(rule.spacing / (wanted and share or 1))
  local burst = (wanted or rule.moderated) and 1 or rule.hits
  local next_at = tonumber(redis.call('GET', K.scrapes(site)) or 0)
  local may_start = math.max(now, next_at - (burst - 1) * interval)
  local start = math.max(may_start, now + site_opens_in(state))
  return start - now, may_start - now, math.max(next_at, start) + interval
end

-- Forget scrapes that have ended.
local function forget()
  local keys = {}
  for i, one in ipairs(ended) do
    keys[i] = K.scrape(one)
  end
  for i, ticket in ipairs(#keys > 0 and redis.call('MGET', unpack(keys)) or keys) do
    if ticket then
      local its_client, its_site = unpack(cmsgpack.unpack(ticket))
      redis.call('DEL', keys[i])
      redis.call('ZREM', K.scrapes_of(its_client), ended[i])
      redis.call('ZREM', K.scrapes_at(its_site), ended[i])
    end
  end
end

local function admit()
  if not rules_known then
    return 'unknown', BUSY_MS
  end
  local state = state_of_site()
  if state.rule.hits == 0 then
    return 'blocked', BUSY_MS
  elseif in_progress(K.scrapes_of(client)) >= most then
    return 'too_many', BUSY_MS
  end
  local wanted = is_wanted()
  local room = math.max(math.floor(share * state.rule.concurrency), 1)
  if in_progress(K.scrapes_at(site)) >= room and wanted then
    return 'busy', BUSY_MS
  end
  local start_ms, from_ms, next_at = place_of(state, wanted)
  if start_ms > latest_ms then
    return 'busy', start_ms - latest_ms
  end
  redis.call('SET', K.scrapes(site), int(next_at), 'PX', int(math.ceil(next_at - now) + KEPT_MS))
  note(K.scrapes_of(client))
  note(K.scrapes_at(site))
  redis.call('SET', K.scrape(id), cmsgpack.pack({ client, site }), 'PX', int(forgotten_ms))
  return 'ok', start_ms, from_ms
end

forget()
local answer, ms, from_ms = '', 0, 0
if site then
  answer, ms, from_ms = admit()
end
save_clock()
return cmsgpack.pack({ answer, math.ceil(ms), math.ceil(from_ms or 0), wall })
