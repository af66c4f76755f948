#!lua flags=allow-oom
-- reap: return the leases of a dead worker to the front of their queues, in bounded steps.
-- Guarantee: unmarked entries return in their old order with one reap more; from the 3rd reap on
--   with a growing delay; the 20th, or the 3rd death, is a dead letter: failed, to be published with
--   its entry. Only the entry that the dead worker was processing gains a death, in the first step. The
--   worker stays past its deadline until the last step.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 worker that is known to be dead, or '' for the one longest past its deadline;
--   2 token of the entry it was processing, or ''.
-- Returns: packed {worker|'', returned, dead letters, does it still have any}
-- Cost: O(held), at most about 300, to read the leases; HOLDS_A_STEP to return.
--- include: clock
--- include: views
--- include: ledger
--- include: throttle
--- include: bands
--- include: dedupe
--- include: admit
--- include: holds
--- include: bury

local HOLDS_A_STEP = 64
local worker, blamed = ARGV[1], ARGV[2]
if worker == '' then
  worker = redis.call('ZRANGE', K.workers, '-inf', int(now), 'BYSCORE', 'LIMIT', 0, 1)[1]
end
if not worker then
  finish()
  return cmsgpack.pack({ '', 0, 0, false })
end

local held, holds = all_holds(worker), {}
for _, hold in ipairs(held) do
  if #holds < HOLDS_A_STEP or hold.token == blamed then
    holds[#holds + 1] = hold
  end
end
join_throttle(holds)
local returned, buried = 0, 0
for _, hold in ipairs(holds) do
  if take_back(hold, hold.token == blamed and 1 or 0, 'killed_worker') then
    buried = buried + 1
  else
    returned = returned + 1
  end
end
flush_holds(worker)
if #holds == #held then
  forget_worker(worker)
end
finish()
return cmsgpack.pack({ worker, returned, buried, #holds < #held })
