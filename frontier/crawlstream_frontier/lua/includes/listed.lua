-- Pages of a crawl with a score that wait in a band (see `inlinks`), for queries.
-- Needs: keys. Cost: a command per page.

-- Return for each of the fingerprints of a domain whether its page waits: 0 if not, 1 with one entry, 2 with several.
local function listed_states(c, domain, fingerprints)
  local LEVEL, SEVERAL = 8, 4
  local states, key = {}, K.linked(c, domain)
  for i, fingerprint in ipairs(fingerprints) do
    local value = redis.call('HGET', key, fingerprint)
    states[i] = not value and 0 or string.match(value, '^%d+') % LEVEL < SEVERAL and 1 or 2
  end
  return states
end
