-- Contexts during leasing: a context is the part of one generation of a crawl in one partition, if the frontier has
-- several. The coordinator of the crawl decides which run it works for.
-- Guarantee: pages of a context are leased only for a run that the coordinator has confirmed in this epoch of the
--   partition, with a version of its registry no older than the latest that came with a page.
-- `x:<c>` has `label`, "<generation> <known life> <known number> <hint life> <hint number> <confirmed>
--   <since> <wants> <dropped>": the version of the registry that the label comes from; the latest that came
--   with a page; the epoch of this partition in which the label was confirmed; frontier ms since when it is
--   not; whether a profile is missing (`wanted:<c>` SET of hashes); whether bands have left the index meanwhile.
--   `run` is the label: 0 if no run is open. Its links and seeds are admitted all the same.
-- `need:<c>` HASH partition -> offset up to which its links must be read before the run is over.
-- Needs: clock, and of `ledger` crawl_of. Cost: nothing in a frontier of one partition: its functions are
--   created when needed, because defining one takes time in every call.
local made_standings, made_waits

-- Return true if a run's time is over by this partition's clock: it leases nothing then, and the coordinator ends it.
local function is_late(crawl)
  return crawl.expires > 0 and has_come(crawl.expires)
end

local function standings()
  if made_standings then
    return made_standings
  end
  local FIELDS = '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d) (%d)$'
  local of = {}
  made_standings = of

  function of.read(text)
    local g, known_life, known_number, hint_life, hint_number, confirmed, since, wants, dropped =
      string.match(text, FIELDS)
    return { generation = tonumber(g), known_life = tonumber(known_life), known_number = tonumber(known_number),
      hint_life = tonumber(hint_life), hint_number = tonumber(hint_number), confirmed = tonumber(confirmed),
      since = tonumber(since), wants = wants == '1', dropped = dropped == '1' }
  end

  function of.save(c)
    local context = crawl_of(c).context
    redis.call('HSET', K.ledger(c), 'label', string.format('%d %d %d %d %d %d %d %d %d', context.generation,
      context.known_life, context.known_number, context.hint_life, context.hint_number, context.confirmed,
      context.since, context.wants and 1 or 0, context.dropped and 1 or 0))
  end

  -- Return true if version (life, number) of a registry is earlier than another.
  function of.is_before(a_life, a_number, b_life, b_number)
    return a_life < b_life or a_life == b_life and a_number < b_number
  end

  -- Return true if the coordinator must confirm a context before anything of it is leased.
  function of.is_unconfirmed(context)
    return context.confirmed ~= life or context.wants
      or of.is_before(context.known_life, context.known_number, context.hint_life, context.hint_number)
  end

  -- Note that a band left the index while its crawl waits for its coordinator: others use the domain meanwhile.
  function of.note_dropped(c)
    local context = crawl_of(c).context
    if not context.dropped then
      context.dropped = true
      of.save(c)
    end
  end

  function of.may_lease(crawl)
    return crawl.run ~= '0' and not of.is_unconfirmed(crawl.context) and not is_late(crawl)
  end

  return of
end

-- Return functions for contexts that wait for their coordinator, and for the needs of their pages.
local function home_waits()
  if made_waits then
    return made_waits
  end
  local ASK_AGAIN_MS, ASK_SELDOM_MS, MOST_WANTED = 25, 5000, 100
  local waits, needs = { note_dropped = standings().note_dropped }, {}
  made_waits = waits

  -- Return the time of the next check of an unconfirmed context's domain: the longer it waits, the less often.
  function waits.ask_again_at(c)
    local waited = now - math.max(crawl_of(c).context.since, restart)
    return now + math.max(math.min(waited, ASK_SELDOM_MS), ASK_AGAIN_MS)
  end

  -- Return the questions for the coordinators of these contexts: {name, generation, hashes of profiles} for a label,
  -- with a fourth field, true, for credits.
  function waits.questions(crawls)
    local asked = {}
    for c in pairs(crawls) do
      local name, context = crawl_of(c).name, crawl_of(c).context
      asked[#asked + 1] = context.is_short and { name, context.generation, {}, true } or nil
      local wanted = context.wants and redis.call('SRANDMEMBER', K.wanted(c), MOST_WANTED) or {}
      asked[#asked + 1] = standings().is_unconfirmed(context) and { name, context.generation, wanted } or nil
    end
    return asked
  end

  -- Raise the offsets up to which other partitions must have read their links: {partition, offset …}.
  function waits.raise_need(c, need)
    needs[c] = needs[c] or {}
    for i = 1, #need, 2 do
      local known, q, offset = needs[c], need[i], need[i + 1]
      known[q] = known[q] or tonumber(redis.call('HGET', K.need(c), int(q)) or 0)
      if offset > known[q] then
        known[q] = offset
        redis.call('HSET', K.need(c), int(q), int(offset))
      end
    end
  end

  return waits
end
