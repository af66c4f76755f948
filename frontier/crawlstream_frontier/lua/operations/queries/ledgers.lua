#!lua flags=no-writes
-- ledgers: return the counters of several crawls.
-- Guarantee: reads counters, never entries; all counters of a crawl are of one moment.
-- KEYS: 1 prefix of all keys.
-- ARGV: names of crawls.
-- Returns: packed {fields of the record …}, one each; {} for an unknown crawl.
-- Cost: one HGETALL per crawl, or two.
--- include: keys
--- include: kept
--- include: latest
local ledgers = {}
for i, text in ipairs(redis.call('HMGET', K.names, unpack(ARGV))) do
  local c = text and string.match(text, '^%d+')
  ledgers[i] = c and ledger_for_readers(c) or {}
end
return cmsgpack.pack(ledgers)
