-- Pages of a crawl with a score that are listed as waiting (see `inlinks`), for queries.
-- Needs: keys, own_sets. Cost: four commands per page.

-- Return for each of the fingerprints of a domain whether its page waits: 0 if not, 2 if it was promoted, else 1 or 3.
local function listed_states(c, domain, fingerprints)
  local record = redis.call('HGET', K.domains(c), domain) or '0 0 0 '
  local slab, own = string.match(record, '^%d+ (%d+) (%d+) ')
  local states, sets = {}, sets_for(own + 0)
  for i, fingerprint in ipairs(fingerprints) do
    local set = string.format('%d', set_of(fingerprint, sets))
    states[i] = 0
    for kind = 1, 2 do
      local of = c .. '.' .. kind
      local is_in = redis.call('SISMEMBER', K.slab(of, slab), fingerprint)
        + redis.call('SISMEMBER', K.own_set(of, domain, set), fingerprint)
      states[i] = states[i] + kind * is_in
    end
  end
  return states
end
