-- Credits of a page limit, where the frontier has several partitions: a link that counts enters with a credit of its
-- own partition. Others wait, in limbo, until the home of their crawl has granted some, or said that there are none.
-- Guarantee: a credit is spent once, in the script in which its link enters. One that was not spent when the
--   partition restarted is gone: it may have been given back since. In limbo is a link once, and no more links
--   than credits may still come: none waits that could never enter.
-- `credit:<c>` HASH, the account: life (of the partition), number (one more each time that credits are given back),
--   drawn (credits in all, less what was given back), unspent; home_life (answers of an earlier one do not
--   count), rank (each unspent credit is among so many first of the crawl), elsewhere (credits that others have
--   spent, as last told), over (the highest limit that is known to be reached), seeds and seeds_limit (seeds that
--   wait in Kafka for credits, and their limit).
-- `limbo:<c>` LIST of packed {limit, domain cap, priority, spider, site|'', domain, fingerprint, entry};
-- `limbo_marks:<c>` SET of their fingerprints; `limbo_domains:<c>` HASH domain -> how many, where domains have a cap.
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

  -- That of a context, in this life of the partition. Pages that have entered without a credit (of seeds without
  -- a limit, or in another frontier) count as spent.
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

  -- Credits at hand for pages under a limit.
  function of.usable(c, limit)
    local account = accounts().get(c)
    return account.rank <= limit and account.unspent or 0
  end

  -- Spend up to `amount` of them; answers how many.
  function of.spend(c, limit, amount)
    local spent = math.min(amount, of.usable(c, limit))
    if spent > 0 then
      local account = accounts().get(c)
      account.unspent = account.unspent - spent
      redis.call('HINCRBY', K.credit(c), 'unspent', int(-spent))
    end
    return spent
  end

  -- How many more credits under a limit could ever come here.
  function of.possible(c, limit)
    local account = accounts().get(c)
    local spent = account.drawn - account.unspent
    return account.over >= limit and 0 or limit - account.elsewhere - spent - of.usable(c, limit)
  end

  -- So many seeds of a context wait in Kafka for credits under a limit.
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

  -- The home is to be asked for credits of a context.
  function of.note_short(c)
    crawl_of(c).context.is_short, of.short[c] = true, true
  end

  -- Count those of a group ({list, marks, entries, n} as `admit_group` has them) that cannot even wait, and answer
  -- the others, packed, and their fingerprints. `taken` of them have entered; `domain_room`, for all.
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
          terms.site or '', domain, list[first + i - 1], list[group[3] + i - 1] })
      end
    end
    return packed, fingerprints
  end

  return of
end

-- Spend credits on a group of links; answers how many of them, the first ones, may enter, and whether others do not.
-- `counted`: pages of the domain so far. A seed does not wait here.
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

-- What the home is told of an account, and whoever carries it: {life, number, drawn, unspent, limit, wanted, ready},
-- and how many of the unspent are waited for. limit: that of whatever has waited longest; wanted: credits beyond
-- those that are needed and at hand; ready: links that could be let in, or refused, at once.
local function draw_of(c)
  local account, head = accounts().get(c), redis.call('LINDEX', K.limbo(c), 0)
  local limit = head and cmsgpack.unpack(head)[1] or account.seeds_limit
  local links, is_over = limbo().length(c), account.over >= limit
  local needed = math.min(links + account.seeds, credits().usable(c, limit))
  local wanted = is_over and 0 or links + account.seeds - needed
  local ready = is_open(c) and math.min(links, is_over and needed == 0 and links or needed) or 0
  return { account.life, account.number, account.drawn, account.unspent, limit, wanted, ready }, needed
end
