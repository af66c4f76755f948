#!lua flags=allow-oom
-- put: children of a held page, ahead of its settle, when they are too many for one call.
-- Guarantee: nothing enters for a hold that is stale, or while Redis is crowded. Safe to repeat:
--   dedupe knows them.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 packed {worker, token, domain_cap|-1, crawl_cap|-1, links as in `admit`}
-- Returns: packed {life, is it refused as Redis is crowded}; the settle tells whether the hold was there
-- Cost: as the children of a settle.
--- include: clock
--- include: views
--- include: ledger
--- include: throttle
--- include: bands
--- include: finish
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
local c = parse_hold(token, packed).lot.c
load_domain_records(c, add_domains(links, {}))
admit_children(c, links, caps_of(domain_cap, crawl_cap))
save_domain_records()
finish()
return cmsgpack.pack({ life, false })
