#!lua flags=allow-oom
-- apply: admit links from pages in other partitions, together with this partition's position in its topic.
-- Guarantee: each record takes effect once, in spite of repeated and concurrent calls: records below the position
--   are skipped, a gap writes nothing, nor does a group of records of which some are below. A dead generation takes
--   nothing; an unknown one gets a context, which leases nothing until its coordinator has confirmed it. While Redis is
--   crowded nothing is admitted.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 packed {topic uuid, kafka partition, start, next, {groups of records in these offsets …}}
--   group   {name, generation, life of its version, number of its version, hash of the profile, domain_cap|-1,
--            crawl_cap|-1, links as in `admit`, their entries without headers}: all records with these fields in
--            common
-- Returns: packed {'OK', records applied, records ignored, links admitted, unconfirmed as of `take`},
--   {'FULL', used, limit in bytes} or {'GAP', position} to continue from: -1 if none is known
-- Cost: as the children of a settle.
--- include: clock
--- include: views
--- include: ledger
--- include: throttle
--- include: bands
--- include: dedupe
--- include: admit
--- include: crawls
--- include: steer
--- include: memory
--- include: contexts
--- include: profiles

local topic, kafka_partition, start, next_offset, records = unpack(cmsgpack.unpack(ARGV[1]))
local place = topic .. ':' .. int(kafka_partition)
local position = tonumber(redis.call('HGET', K.positions, place) or -1)
if position < 0 or start > position or #records > 0 and start < position and position < next_offset then
  return cmsgpack.pack({ 'GAP', position })
end
local used, limit = memory()
if is_crowded(used, limit) and next_offset > position then
  return cmsgpack.pack({ 'FULL', used, limit })
end

local applied, ignored, admitted, contexts = 0, 0, 0, {}
-- In a moved frontier, records from before the move were moved with it, or are for domains elsewhere.
local began = tonumber(redis.call('HGET', K.meta, 'began') or 0)

-- Give the entries of a list of links their headers.
local function with_headers(links, header)
  local at = 1
  while links[at] do
    local groups = links[at + 4]
    at = at + 5
    for _ = 1, groups do
      local amount = links[at + 1]
      for entry = at + 2 + amount, at + 1 + 2 * amount do
        links[entry] = header .. links[entry]
      end
      at = at + 2 + 2 * amount
    end
  end
  return links
end

local function apply(record)
  local name, generation, version_life, version_number, profile, domain_cap, crawl_cap, links = unpack(record)
  local c = version_life >= began and context_for(name, generation)
  if not c then
    ignored = ignored + 1
    return
  end
  applied, contexts[c] = applied + 1, true
  raise_hint(c, version_life, version_number)
  load_domain_records(c, add_domains(links, {}))
  local header, caps = profile_number(c, profile) .. ',', caps_of(domain_cap, crawl_cap)
  if caps then
    links, header = with_headers(links, header), nil  -- They may have to wait for credits.
  end
  admitted = admitted + admit_children(c, links, caps, header)
  touched[c] = true
end

for i = 1, position < next_offset and #records or 0 do
  apply(records[i])
end
redis.call('HSET', K.positions, place, int(math.max(position, next_offset)))
save_domain_records()
local unconfirmed = unconfirmed_of(contexts)
finish()
return cmsgpack.pack({ 'OK', applied, ignored, admitted, unconfirmed })
