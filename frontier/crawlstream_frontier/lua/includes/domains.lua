-- Records of the domains of a crawl: number of counted pages, places of fingerprints, and bands.
-- Guarantee: each is read once and written once per call, regardless of the number of links.
-- `k:<c>` HASH domain -> "<counted> <slab> <own> <bands>", see `dedupe`.
-- Needs: clock, throttle, bands, dedupe. Cost: one HMGET and one HSET per crawl and call.
local function parse_domain_record(text)
  if not text then
    return { counted = 0, slab = NO_SLAB, own = 0, bands = '' }
  end
  local counted, slab, own, bands = string.match(text, '^(%d+) (%d+) (%d+) (.*)$')
  return { counted = counted + 0, slab = slab, own = own + 0, bands = bands }
end

-- Domains of one call have similar numbers of pages: each number is formatted once.
local digits = setmetatable({}, { __index = function(known_digits, number)
  local text = int(number)
  known_digits[number] = text
  return text
end })

local function domain_record_text(record)
  return digits[record.counted] .. ' ' .. record.slab .. ' ' .. digits[record.own] .. ' ' .. record.bands
end

local records_of, changed_records = {}, {}

-- Return the records of domains of crawl c as a table, at least these: one HMGET. The throttle states of
-- domains that are new to the crawl are loaded. Callers that change a record must add it to
-- `changed_of(c)`; `save_domain_records` writes it.
local function load_domain_records(c, domains)
  local records, missing = records_of[c] or {}, {}
  records_of[c] = records
  for i = 1, #domains do
    local domain = domains[i]
    if records[domain] == nil then
      records[domain], missing[#missing + 1] = false, domain
    end
  end
  if #missing == 0 then
    return records
  end
  local texts, new = redis.call('HMGET', K.domains(c), unpack(missing)), {}
  for i = 1, #missing do
    records[missing[i]] = parse_domain_record(texts[i])
    if not texts[i] then
      new[#new + 1] = missing[i]
    end
  end
  if scope == '' then
    load_states(new)
  end
  return records
end

local function changed_of(c)
  changed_records[c] = changed_records[c] or {}
  return changed_records[c]
end

-- A large batch is written with a long value, so that Redis uses a hash table permanently: the compact form
-- is searched from end to end, and a broad crawl would pay for that until its 513th domain.
local function save_domain_records()
  local MANY_DOMAINS = 32
  for c, changed in pairs(changed_records) do
    local key, fields, n = K.domains(c), {}, 0
    for domain, record in pairs(changed) do
      fields[n + 1], fields[n + 2] = domain, domain_record_text(record)
      n = n + 2
    end
    if n > 2 * MANY_DOMAINS then
      redis.call('HSET', key, PAD, PADDING, unpack(fields))
      redis.call('HDEL', key, PAD)
    else
      redis.call('HSET', key, unpack(fields))
    end
  end
  changed_records = {}
end
