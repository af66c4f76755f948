#!lua flags=allow-oom
-- tells: what a home has to tell partitions, which whoever asks does, by `label`.
-- Guarantee: nothing is changed; what was told is removed by its name, so that what came since stays.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 at most
-- Returns: packed {'OK', tells {name of the tell, is the generation over …}}, or {'RESTORE', life}
-- Cost: one command a crawl.
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
