-- Pages of a crawl with a score that wait in a band (see `inlinks`), for queries.
-- Needs: keys. Cost: a command.

-- Return for each of the fingerprints of a domain whether its page waits: 0 if not, 1 with one entry, 2 with several.
local function listed_states(c, domain, fingerprints)
  local LEVEL, SEVERAL = 8, 4
  local states = redis.call('HMGET', K.linked(c, domain), unpack(fingerprints))
  for i, value in ipairs(states) do
    states[i] = not value and 0 or string.match(value, '^%d+') % LEVEL < SEVERAL and 1 or 2
  end
  return states
end
