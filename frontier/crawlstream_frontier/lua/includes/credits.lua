-- Credits of a page limit in a frontier of several partitions: a counted link is admitted with a credit of its
-- own partition. Others wait, in limbo, until the coordinator of their crawl grants some, or reports that none are
-- left.
-- Guarantee: a credit is spent once, in the script that admits its link. Unspent credits are lost when the
--   partition restarts, because they may have been returned since. A link is in limbo once. There are no more links
--   in limbo than credits may still come, so that each can still be admitted.
-- `credit:<c>` HASH, the account: life (of the partition), number (one more each time that credits are returned),
--   drawn (all credits received, less those returned), unspent; home_life (answers of an earlier one are
--   ignored), rank (all unspent credits are among this many first of the crawl), elsewhere (credits spent by
--   others, as last reported), over (the highest limit that is known to be reached), seeds and seeds_limit (seeds
--   that wait in Kafka for credits, and their limit).
-- `limbo:<c>` LIST of packed {limit, domain cap, priority, spider, site|'', domain, fingerprint, entry
-- [, counts as in `admit`]};
-- `limbo_marks:<c>` SET of their fingerprints; `limbo_domains:<c>` HASH domain -> their number, if domains have a cap.
-- Needs: clock, ledger. Cost: nothing in a frontier of one partition, nor for a crawl without a limit.
local made_accounts, made_credits, made_limbo

local function accounts()
  if made_accounts then
    return made_accounts
  end
  local FIELDS = { 'life', 'number', 'drawn', 'unspent', 'home_life', 'rank', 'elsewhere', 'over', 'seeds',
    'seeds_limit' }
  local of, loaded = {}, {}
  made_accounts = of

  function of.save(c)
    local values = {}
    for i, field in ipairs(FIELDS) do
      values[2 * i - 1], values[2 * i] = field, int(loaded[c][field])
    end
    redis.call('HSET', K.credit(c), unpack(values))
  end

  local function load(c)
    local values, account = redis.call('HMGET', K.credit(c), unpack(FIELDS)), {}
    for i, field in ipairs(FIELDS) do
      account[field] = tonumber(values[i] or 0)
    end
    return account
  end

  -- Return the account of a context in this epoch of the partition. Pages admitted without a credit (of seeds
  -- without a limit, or in another frontier) count as spent.
  function of.get(c)
    local account = loaded[c]
    if not account then
      account = load(c)
      local entered = tonumber(redis.call('HGET', K.ledger(c), 'counted') or 0)
        + (deltas[c] and deltas[c].counted or 0)
      local is_changed = account.life ~= life
      if is_changed then
        account.life, account.drawn, account.unspent = life, account.drawn - account.unspent, 0
      end
      if entered ~= account.drawn - account.unspent then
        account.number, account.drawn, is_changed = account.number + 1, entered + account.unspent, true
      end
      loaded[c] = account
      if is_changed then
        of.save(c)
      end
    end
    return account
  end

  return of
end

local function credits()
  if made_credits then
    return made_credits
  end
  local of = {}
  made_credits = of

  -- Return the available credits for pages under a limit.
  function of.usable(c, limit)
    local account = accounts().get(c)
    return account.rank <= limit and account.unspent or 0
  end

  -- Spend up to `amount` credits; return the number spent.
  function of.spend(c, limit, amount)
    local spent = math.min(amount, of.usable(c, limit))
    if spent > 0 then
      local account = accounts().get(c)
      account.unspent = account.unspent - spent
      redis.call('HINCRBY', K.credit(c), 'unspent', int(-spent))
    end
    return spent
  end

  -- Return the number of credits under a limit that may still come here.
  function of.possible(c, limit)
    local account = accounts().get(c)
    local spent = account.drawn - account.unspent
    return account.over >= limit and 0 or limit - account.elsewhere - spent - of.usable(c, limit)
  end

  -- Note the number of a context's seeds that wait in Kafka for credits under a limit.
  function of.note_seeds(c, amount, limit)
    local account = accounts().get(c)
    if account.seeds ~= amount or account.seeds_limit ~= limit then
      account.seeds, account.seeds_limit = amount, limit
      accounts().save(c)
    end
  end

  return of
end

local function limbo()
  if made_limbo then
    return made_limbo
  end
  local of = { short = {} }
  made_limbo = of

  function of.length(c)
    return redis.call('LLEN', K.limbo(c))
  end

  -- Note that a context must request credits from its coordinator.
  function of.note_short(c)
    crawl_of(c).context.is_short, of.short[c] = true, true
  end

  -- Count the links of a group ({list, marks, entries, n} as in `admit_group`) that cannot even wait; return the
  -- others, packed, and their fingerprints. `taken`: number admitted; `domain_room`: room for all.
  function of.select(terms, domain, group, taken, domain_room)
    local c, caps, list, first = terms.c, terms.caps, group[1], group[2]
    local waits = redis.call('SMISMEMBER', K.limbo_marks(c), unpack(list, first, first + group[4] - 1))
    local room, packed, fingerprints = credits().possible(c, caps.crawl) - of.length(c), {}, {}
    for i = taken + 1, group[4] do
      if waits[i] == 1 then
        count(c, 'z:duplicate', 1)
      elseif #packed >= domain_room then
        count(c, 'z:domain_max_pages', 1)
      elseif #packed >= room then
        count(c, 'z:max_pages', 1)
      else
        fingerprints[#fingerprints + 1] = list[first + i - 1]
        packed[#packed + 1] = cmsgpack.pack({ caps.crawl, caps.domain, terms.kind.priority, terms.kind.spider,
          terms.site or '', domain, list[first + i - 1], list[group[3] + i - 1], terms.counts })
      end
    end
    return packed, fingerprints
  end

  return of
end

-- Spend credits on a group of links; return the number of admitted links, which are the first ones, and whether any
-- are refused. `counted`: pages of the domain so far. A seed does not wait here.
local function let_in(terms, domain, counted, group)
  local c, caps = terms.c, terms.caps
  local taken = credits().spend(c, caps.crawl, group[4])
  if taken == group[4] then
    return taken
  elseif terms.is_seed then
    count(c, 'z:max_pages', group[4] - taken)
    return taken, 'max_pages'
  end
  local has_cap = caps.domain >= 0
  local domain_room = has_cap and caps.domain - counted - taken
    - tonumber(redis.call('HGET', K.limbo_domains(c), domain) or 0) or math.huge
  local packed, fingerprints = limbo().select(terms, domain, group, taken, domain_room)
  if #packed > 0 then
    redis.call('RPUSH', K.limbo(c), unpack(packed))
    redis.call('SADD', K.limbo_marks(c), unpack(fingerprints))
    if has_cap then
      redis.call('HINCRBY', K.limbo_domains(c), domain, int(#packed))
    end
    count(c, 'limbo', #packed)
    limbo().note_short(c)
  end
  return taken, 'max_pages'
end

-- Return an account in the form sent to the coordinator: {life, number, drawn, unspent, limit, wanted, ready},
-- and the number of unspent credits with a waiting link. limit: that of the link that has waited longest; wanted:
-- needed credits that are not available; ready: links that could be admitted, or refused, at once.
local function draw_of(c)
  local account, head = accounts().get(c), redis.call('LINDEX', K.limbo(c), 0)
  local limit = head and cmsgpack.unpack(head)[1] or account.seeds_limit
  local links, is_over = limbo().length(c), account.over >= limit
  local needed = math.min(links + account.seeds, credits().usable(c, limit))
  local wanted = is_over and 0 or links + account.seeds - needed
  local ready = is_open(c) and math.min(links, is_over and needed == 0 and links or needed) or 0
  return { account.life, account.number, account.drawn, account.unspent, limit, wanted, ready }, needed
end
