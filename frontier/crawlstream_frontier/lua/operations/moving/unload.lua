#!lua flags=allow-oom
-- unload: return the data of a partition, a bounded part per call, to move it.
-- Guarantee: changes nothing. It works without the clock, so that a frozen partition answers, too.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 kind, 2 packed {its arguments …}
--   about                         -> {m {…}, positions {…}, enrolled {…}, epochs {…}, totals {…}, spiders {…}}
--   crawls   cursor               -> {next, {{name, text in `names`, ledger {…}, profiles {…}, shift, forgotten|''} …}}
--   registry cursor               -> {next, {name, packed, profiles {…} …}}
--   domains  c, spider, cursor    -> {next, {{domain, record, fingerprints in its first own set {…}, bands,
--                                    its text in `used`|''} …}}
--     bands  {spider, priority, entries in the head, the first of them {…}, chunks {…}, entries in the tail}
--   sizes    c, cursor            -> {next, {fingerprints in a domain's own sets …}}
--   band     which, spider, tag, domain, from -> {entry …} of a head ('b') or a tail ('bt')
--   own      c, domain, set       -> {fingerprint …}
--   slabs    c, first, last       -> {{fingerprint …} …}
--   listed   c, domain, {fingerprint …} -> {state as in `listed` …}
--   delayed  c, spider, from      -> {member, due …}
--   states   cursor               -> {next, {name, state …}}
--   chunk    id                   -> {value|''}
-- Returns: packed {part …}, as above
-- Cost: O(returned data), about 100 KB.
--- include: keys
--- include: listed
local CRAWLS, DOMAINS, ENTRIES, STATES = 50, 100, 100, 500
local tell = {}

function tell.about()
  local meta = redis.call('EXISTS', K.moved) == 1 and K.moved or K.meta
  return { redis.call('HGETALL', meta), redis.call('HGETALL', K.positions), redis.call('HGETALL', K.enrolled),
    redis.call('HGETALL', K.epochs), redis.call('HGETALL', K.totals), redis.call('SMEMBERS', K.spiders) }
end

function tell.crawls(cursor)
  local scanned, crawls = redis.call('HSCAN', K.names, cursor, 'COUNT', CRAWLS), {}
  for i = 1, #scanned[2], 2 do
    local name, text = scanned[2][i], scanned[2][i + 1]
    local c = string.match(text, '^%d+')
    crawls[#crawls + 1] = { name, text, redis.call('HGETALL', K.ledger(c)), redis.call('HGETALL', K.profiles(c)),
      redis.call('HGET', K.shifts, c) or '0', redis.call('ZSCORE', K.forget, c) or '' }
  end
  return { scanned[1], crawls }
end

function tell.registry(cursor)
  local scanned, crawls = redis.call('HSCAN', K.registry, cursor, 'COUNT', CRAWLS), {}
  for i = 1, #scanned[2], 2 do
    local name = scanned[2][i]
    for _, part in ipairs({ name, scanned[2][i + 1], redis.call('HGETALL', K.home_profiles(name)) }) do
      crawls[#crawls + 1] = part
    end
  end
  return { scanned[1], crawls }
end

-- Return the bands of a domain that have entries, as its record lists them.
local function bands_of(c, own_spider, domain, names)
  local bands = {}
  for priority, S in string.gmatch(names, ',(-?%d+)@?([^,]*)') do
    S = S ~= '' and S or own_spider
    local tag = c .. '/' .. priority
    local head = redis.call('LLEN', K.band(S, tag, domain))
    local chunks = redis.call('LRANGE', K.chunks(S, tag, domain), 0, -1)
    local tail = redis.call('LLEN', K.tail(S, tag, domain))
    if head + #chunks + tail > 0 then
      bands[#bands + 1] = { S, tonumber(priority), head,
        redis.call('LRANGE', K.band(S, tag, domain), 0, ENTRIES - 1), chunks, tail }
    end
  end
  return bands
end

function tell.domains(c, own_spider, cursor)
  local scanned, domains = redis.call('HSCAN', K.domains(c), cursor, 'COUNT', DOMAINS), {}
  local has_used = redis.call('EXISTS', K.used(c)) == 1
  for i = 1, #scanned[2], 2 do
    local domain, record = scanned[2][i], scanned[2][i + 1]
    local own, names = string.match(record, '^%d+ %d+ (%d+) (.*)$')
    if own then
      domains[#domains + 1] = { domain, record, own ~= '0' and redis.call('SMEMBERS', K.own_set(c, domain, '0')) or {},
        bands_of(c, own_spider, domain, names), has_used and redis.call('HGET', K.used(c), domain) or '' }
    end
  end
  return { scanned[1], domains }
end

function tell.sizes(c, cursor)
  local scanned, sizes = redis.call('HSCAN', K.domains(c), cursor, 'COUNT', 10 * DOMAINS), {}
  for i = 2, #scanned[2], 2 do
    sizes[#sizes + 1] = tonumber(string.match(scanned[2][i], '^%d+ %d+ (%d+) ') or nil)
  end
  return { scanned[1], sizes }
end

function tell.band(which, S, tag, domain, from)
  local key = which == 'b' and K.band(S, tag, domain) or K.tail(S, tag, domain)
  return redis.call('LRANGE', key, from, from + 10 * ENTRIES - 1)
end

function tell.own(c, domain, set)
  return redis.call('SMEMBERS', K.own_set(c, domain, string.format('%d', set)))
end

function tell.slabs(c, first, last)
  local slabs = {}
  for slab = first, last do
    slabs[#slabs + 1] = redis.call('SMEMBERS', K.slab(c, string.format('%d', slab)))
  end
  return slabs
end

tell.listed = listed_states

function tell.delayed(c, S, from)
  return redis.call('ZRANGE', K.delayed(S, c), from, from + ENTRIES - 1, 'WITHSCORES')
end

function tell.states(cursor)
  return redis.call('HSCAN', K.states, cursor, 'COUNT', STATES)
end

function tell.chunk(id)
  return { redis.call('GET', K.chunk(id)) or '' }
end

return cmsgpack.pack(tell[ARGV[1]](unpack(cmsgpack.unpack(ARGV[2]))))
