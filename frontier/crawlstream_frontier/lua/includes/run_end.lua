-- The end of a run by time.
-- Guarantee: `budget`, in the ledger of a run or the registry of a crawl, names the budget that has set `expires`, or
--   has ended the run; it is absent if a seed's own `expires` has.
-- Needs: nothing. Cost: no command.

-- Return the time at which a run ends, in epoch s, and the budget that ends it, if one does. `expires`: of the seed
-- (0: never); started: epoch ms.
local function end_of(expires, max_seconds, started)
  local at = math.ceil(started / 1000) + max_seconds
  if max_seconds > 0 and (expires == 0 or at < expires) then
    return at, 'max_seconds'
  end
  return expires
end
