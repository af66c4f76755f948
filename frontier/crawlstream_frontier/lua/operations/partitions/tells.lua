#!lua flags=allow-oom
-- `tells`: return the label changes that a coordinator must deliver to partitions; the caller delivers them with
--   `label`.
-- Guarantee: changes nothing; delivered changes are removed under their own key, so that later ones stay.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 at most
-- Returns: packed {'OK', changes {key of the change, is the generation over …}}, or {'RESTORE', life}
-- Cost: one command per crawl.
--- include: clock
--- include: ledger
--- include: registry

local tells = {}
for _, tell in ipairs(redis.call('SRANDMEMBER', K.tell, ARGV[1])) do
  local name, generation = string.match(tell, '^(%S+) (%d+) ')
  tells[#tells + 1], tells[#tells + 2] = tell, tonumber(generation) < registered(name).g
end
local is_ready = is_restored()
save_clock()
return cmsgpack.pack(is_ready and { 'OK', tells } or { 'RESTORE', life })
