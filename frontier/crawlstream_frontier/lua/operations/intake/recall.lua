#!lua flags=allow-oom
-- recall: admit spilled children that come back from Kafka, together with the position of their records.
-- Guarantee: each record takes effect once, in spite of repeated and concurrent calls: records below the
--   position are skipped, a gap writes nothing. A registered record leaves `spilled` and `admitted`,
--   and its links are put: dedupe and caps are applied now. If its parent still has a lease, the links
--   are put ahead of the settle, which will not register the record. All other records are ignored:
--   their run has ended, or their parent will be fetched again.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 packed {topic uuid, kafka partition, start, next, {offset, record …}}
--   record  {worker, token, chunk, crawl number, run, domain_cap|-1, crawl_cap|-1, links as in `admit`}
-- Returns: packed {'OK', records applied, records ignored, links admitted}, or {'GAP', position}: -1
--   if none is known because Redis is new
-- Cost: as the children of a settle.
--- include: clock
--- include: views
--- include: ledger
--- include: throttle
--- include: bands
--- include: dedupe
--- include: admit
--- include: spills

local topic, kafka_partition, start, next_offset, records = unpack(cmsgpack.unpack(ARGV[1]))
local place = topic .. ':' .. int(kafka_partition)
local position = tonumber(redis.call('HGET', K.overflow, place) or -1)
if start > position then
  return cmsgpack.pack({ 'GAP', position })
end

local applied, ignored, admitted = 0, 0, 0

local function recall(record)
  local worker, token, chunk, c, run, domain_cap, crawl_cap, links = unpack(record)
  local crawl = crawl_of(c)
  if crawl.state ~= 'running' or tonumber(crawl.run) ~= run
    or not claim_spill(c, worker, token, chunk) then
    ignored = ignored + 1
    return
  end
  applied = applied + 1
  touched[c] = true
  load_domain_records(c, add_domains(links, {}))
  admitted = admitted + admit(c, links, caps_of(domain_cap, crawl_cap))
end

if next_offset > position then
  for i = 1, #records, 2 do
    if records[i] >= position then
      recall(records[i + 1])
    end
  end
  redis.call('HSET', K.overflow, place, int(next_offset))
  save_domain_records()
end
finish()
return cmsgpack.pack({ 'OK', applied, ignored, admitted })
