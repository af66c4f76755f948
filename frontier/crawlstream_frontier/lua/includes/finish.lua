-- The end of an operation that writes: writes all gathered changes once, and wakes workers.
-- Guarantee: the order is the same everywhere. States are written before workers are woken to lease by
--   them, the ledger notes runs that became idle before the clock is saved, and the clock is last.
-- Needs: clock, ledger, throttle, and `bands`, which includes it. Cost: one HSET; unchanged data costs no command.
-- Changes gathered in `admit` or `holds` must be written before: `save_domain_records`, `flush_holds`.
local function finish()
  save_states()
  save_ledger()
  wake_workers()
  save_clock()
end
