#!lua flags=allow-oom
-- put: enqueue children of a leased page ahead of its settle, if they are too many for one call.
-- Guarantee: nothing is admitted for a stale lease, or while Redis is crowded. Safe to repeat:
--   dedupe knows the children.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 packed {worker, token, domain_cap|-1, crawl_cap|-1, links as in `admit`}
-- Returns: packed {life, was it refused because Redis is crowded}; the settle reports a stale lease
-- Cost: as the children of a settle.
--- include: clock
--- include: views
--- include: ledger
--- include: throttle
--- include: bands
--- include: dedupe
--- include: admit
--- include: holds
--- include: memory

local worker, token, domain_cap, crawl_cap, links = unpack(cmsgpack.unpack(ARGV[1]))
local packed = redis.call('HGET', K.holds(worker), token)
if not packed then
  finish()
  return cmsgpack.pack({ life, false })
end
if is_crowded(memory()) then
  finish()
  return cmsgpack.pack({ life, true })
end
local hold = parse_hold(token, packed)
local c = hold.lot.c
load_domain_records(c, add_domains(links, {}))
admit_children(c, links, caps_of(domain_cap, crawl_cap), nil, hold.domain)
save_domain_records()
finish()
return cmsgpack.pack({ life, false })
