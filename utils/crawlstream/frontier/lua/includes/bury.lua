-- The end of an entry that nobody could fetch: failed by name, owed to the world with all it needs
-- to be fed again.
-- Needs: clock, ledger.
local function bury(c, domain, priority, entry, reason)
  count(c, 'failed', 1)
  count(c, 'f:' .. reason, 1)
  touched[c] = true
  local profile = redis.call('HGET', P .. 'f:' .. c, string.match(entry, '^%d+'))
  owe('page_failed', c, { reason = reason, entry = entry, domain = domain, priority = priority,
    profile = profile or '' })
end
