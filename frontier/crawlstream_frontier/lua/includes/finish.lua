-- The end of an operation that writes: what it has gathered is written, once, and told.
-- Guarantee: the order is this one everywhere. States are written before anybody is woken to ask for
--   them, the ledger notes what became idle before the clock is saved, and the clock is last.
-- Needs: clock, ledger, throttle, bands. Cost: one HSET; what has not changed costs no command.
-- What an operation gathers in `admit` or `holds` it writes before: `save_domain_records`, `flush_holds`.
local function finish()
  save_states()
  save_ledger()
  wake_workers()
  save_clock()
end
