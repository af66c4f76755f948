#!lua flags=allow-oom
-- labels: return the labels of crawls from their coordinator to partitions with contexts of them: which run is open.
-- Guarantee: changes nothing, and answers nothing in an epoch of the coordinator that was not restored. A run is open
--   to partitions only when Kafka has the ending of the run before it.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 packed {questions}
--   question {name, generation, {hash of a missing profile …}}
-- Returns: packed {'OK', life, labels}, or {'RESTORE', life}
--   label   {number, run or 0, state, paused until|-1, shift, expires_s|0, occasion|'', {hash, bytes …}}: life and
--           number are the version; state: open, ended, dead or expired (the generation is over) or pending (request
--           again); paused until 0: until it is resumed
-- Cost: one command per crawl, one more if profiles are requested, or a generation is over.
--- include: clock
--- include: ledger
--- include: registry

local questions = unpack(cmsgpack.unpack(ARGV[1]))

local function profiles_of(name, hashes)
  local found, bytes = {}, #hashes > 0 and redis.call('HMGET', K.home_profiles(name), unpack(hashes)) or {}
  for i, hash in ipairs(hashes) do
    if bytes[i] then
      found[#found + 1], found[#found + 2] = hash, bytes[i]
    end
  end
  return found
end

local function state_of_run(name, crawl, generation)
  if generation < crawl.g then
    local closing = redis.call('HGET', K.closing, name .. ' ' .. int(generation))
    return closing and cmsgpack.unpack(closing).how == 'expired' and 'expired' or 'dead'
  elseif generation > crawl.g or crawl.is_open and not crawl.is_published then
    return 'pending'
  end
  return crawl.is_open and 'open' or 'ended'
end

-- Return the end of a run's pause; -1 if it is not paused.
local function paused_until(crawl)
  local is_paused = crawl.paused and (crawl.until_s == 0 or crawl.until_s * 1000 > wall)
  return is_paused and crawl.until_s or -1
end

local labels = {}
for i, question in ipairs(questions) do
  local name, generation, hashes = unpack(question)
  local crawl = registered(name)
  local state = state_of_run(name, crawl, generation)
  labels[i] = { crawl.number, state == 'open' and crawl.run or 0, state, paused_until(crawl), crawl.shift or 0,
    crawl.expires and crawl.expires[1] or 0, crawl.occasion or '', profiles_of(name, hashes) }
end
local is_ready = is_restored()
save_clock()
return cmsgpack.pack(is_ready and { 'OK', life, labels } or { 'RESTORE', life })
