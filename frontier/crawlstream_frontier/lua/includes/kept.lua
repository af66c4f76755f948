-- Counters of a context's run, from its ledger or, after the run has ended, from the kept ones (`contexts`).
-- Needs: nothing. Cost: arithmetic.

-- Return the ledger {field, value …} of a context by field, as that of the given run.
local function with_kept(ledger, run)
  local ENDS = { done = true, failed = true, redirected = true, skipped = true, stopped = true,
    expired = true }
  local found, kept = {}, {}
  for i = 1, #ledger, 2 do
    local field = string.match(ledger[i], '^kept:(.+)$')
    local into = field and kept or found
    into[field or ledger[i]] = ledger[i + 1]
  end
  if tonumber(found.kept) == tonumber(run) then
    for field, value in pairs(kept) do
      found[field] = (found[field] or 0) + value
      found.admitted = (found.admitted or 0) + (ENDS[field] and value or 0)
    end
  end
  found.kept = nil
  return found
end
