-- What a run has come to in a context, with what is kept of it there once it was told to be over (`contexts`).
-- Needs: nothing. Cost: arithmetic.

-- The ledger {field, value …} of a context by field, as that of this run.
local function with_kept(ledger, run)
  local ENDS = { done = true, failed = true, redirected = true, stopped = true, expired = true }
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
