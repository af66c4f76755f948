#!lua flags=allow-oom
-- take: admit seeds of consecutive records of one Kafka partition to the partition of their domain, together with
--   the position of that partition.
-- Guarantee: each enters once, in spite of repeated and concurrent calls: records below the position are skipped, a
--   gap writes nothing. A seed of an ended generation only moves the position. Seeds of unavailable coordinators are
--   read later: until then each of these coordinators has a position of its own. Seeds wait while Redis is full, and
--   for the credits of a page limit. Refusals are answered as by `intake`.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 packed {topic uuid, kafka partition, start, next, profiles {{hash, bytes} …}, seeds, number of coordinators,
--         coordinators {coordinator …} whose seeds are left out, offsets {from, to …} of refusals that are being
--         published}
--   seed    {offset, name, generation, life of its version, number of its version, run, domain, priority,
--            spider, fingerprint, body, profile index, domain_cap|-1, crawl_cap|-1, not_before_ms, uuid|'', site|'',
--            does it enter once more, coordinator}: once more: one time, although it is below the position; uuid: see
--            `note_client`
-- Returns: packed {'OK', applied, {offset, reason …} of the refused, unconfirmed, {} or {name, generation} whose seed
--   waits for credits with all seeds after it}, {'FULL', used, limit in bytes} if a seed must wait,
--   {'OUTDATED'} if the coordinator must stamp it again because its run has expired, or
--   {'GAP', position}: -1 if none is known
--   unconfirmed {name, generation, {hash of a missing profile …}} of contexts that need a label from their
--            coordinators,
--               see `label`
-- Cost: the work of about two commands per seed, eight with caps or times.
--- include: clock
--- include: views
--- include: ledger
--- include: throttle
--- include: bands
--- include: dedupe
--- include: admit
--- include: seeds
--- include: crawls
--- include: steer
--- include: memory
--- include: contexts
--- include: profiles
--- include: refusals
--- include: late

local topic, kafka_partition, start, next_offset, profiles, records, coordinators, absent, untold =
  unpack(cmsgpack.unpack(ARGV[1]))
local OFFSET, NAME, GENERATION, DOMAIN, LIMIT, AGAIN, COORDINATOR = 1, 2, 3, 7, 14, 18, 19
local REMEMBER_MS = 24 * 3600 * 1000
local place = topic .. ':' .. int(kafka_partition)
local reading = reading_of(place, absent, coordinators)
if start > reading.lowest() then
  return cmsgpack.pack({ 'GAP', reading.lowest() })
end

local applied, contexts = 0, {}
load_refused(place, start, untold)

local function seed(record)
  local offset, name, generation, version_life, version_number, run, domain, priority, S, fingerprint, body,
    profile, domain_cap, crawl_cap, not_before, uuid, site = unpack(record)
  applied = applied + 1
  local c = context_for(name, generation)
  if not c then
    return
  end
  contexts[c] = true
  raise_hint(c, version_life, version_number)
  local entry = profile_number(c, unpack(profiles[profile])) .. ',' .. body
  local caps, has_entered, reason = caps_of(domain_cap, crawl_cap), true, nil
  if not caps and not_before <= wall then
    gather_seed(c, kind_of(c, S, priority), domain, site ~= '' and site or nil, fingerprint, entry)
  else
    local links = { priority, S, true, site, 1, domain, 1, fingerprint, entry }
    has_entered, reason = admit_alone(c, links, caps, not_before)
  end
  if not has_entered then
    refuse(offset, reason)
  elseif uuid ~= '' then
    note_client(c, uuid, false, { name = name, run = run, uuid = uuid })
  end
end

-- Return true the first time a seed enters once more. `taken` SET "<place> <offset>" of such seeds, for a day.
local function is_first_again(offset)
  return redis.call('SISMEMBER', K.taken, place .. ' ' .. int(offset)) == 0
end

local function note_taken(offset)
  redis.call('SADD', K.taken, place .. ' ' .. int(offset))
  redis.call('PEXPIRE', K.taken, int(REMEMBER_MS))
end

-- Return true if a seed was stamped before its run expired, perhaps by a coordinator that went back since: the
-- coordinator must stamp it again, for another run or as ended.
local function is_outdated(name, generation)
  local c = redis.call('HGET', K.closed, name .. ' ' .. int(generation))
  local state = c and redis.call('HGET', K.ledger(c), 'state')
  return state == 'expiring' or state == 'expired'
end

-- Return true if a seed must wait for a credit: there is none, and the limit is not reported as reached.
local function lacks_credit(c, domain, caps)
  flush_seeds()
  local room = room_for(c, load_domain_records(c, { domain })[domain], caps)
  return room > 0 and credits().usable(c, caps.crawl) == 0 and accounts().get(c).over < caps.crawl
end

-- Return the number of seeds that wait under the same limit as the one at `at`.
local function amount_like(at)
  local amount, first = 0, records[at]
  for i = at, #records do
    if records[i][NAME] == first[NAME] and records[i][LIMIT] == first[LIMIT] then
      amount = amount + 1
    end
  end
  return amount
end

-- Note the credits that the seed at `at` needs, if it must wait; return {name, generation} then.
local function wait_for_credit(at)
  local name, generation, domain = records[at][NAME], records[at][GENERATION], records[at][DOMAIN]
  local caps = { domain = records[at][LIMIT - 1], crawl = records[at][LIMIT] }
  local c = caps.crawl >= 0 and context_for(name, generation)
  if not c then
    return nil
  end
  local lacks = lacks_credit(c, domain, caps)
  credits().note_seeds(c, lacks and amount_like(at) or 0, caps.crawl)
  return lacks and { name, generation } or nil
end

local used, limit = memory()
local reached, is_waiting, short, outdated = next_offset, false, nil, false
for at, record in ipairs(records) do
  if record[OFFSET] >= reading.of(record[COORDINATOR]) or record[AGAIN] and is_first_again(record[OFFSET]) then
    is_waiting = is_full(used, limit)
    short = not is_waiting and wait_for_credit(at) or nil
    if is_waiting or short then
      reached = record[OFFSET]
      break
    elseif is_outdated(record[2], record[3]) then
      reached, outdated = record[OFFSET], true
      break
    elseif record[AGAIN] then
      note_taken(record[OFFSET])
    end
    seed(record)
  end
end
flush_seeds()
save_refused(place)
reading.move(reached)
local unconfirmed = unconfirmed_of(contexts)
finish()
if outdated then
  return cmsgpack.pack({ 'OUTDATED' })
elseif is_waiting then
  return cmsgpack.pack({ 'FULL', used, limit })
end
return cmsgpack.pack({ 'OK', applied, refused_before(reached), unconfirmed, short or {} })
