#!lua flags=allow-oom
-- reap: a worker is gone; what it held returns to the front of its bands, a bounded step of it.
-- Guarantee: unmarked entries return in their old order with one reap more; from the 3rd reap on
--   with a growing pause; the 20th, or the 3rd death, is a dead letter: failed, owed to the world with
--   its entry. Only the entry that was on the dead worker's CPU gains a death, in the first step. The
--   worker is past its deadline until the last step.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 worker that is known to be dead, or '' for the one longest past its deadline;
--   2 token of the entry it was handling, or ''.
-- Returns: packed {worker|'', returned, dead letters, does it still hold any}
-- Cost: O(held), at most about 300, to read them; HOLDS_A_STEP to give back.
--- include: clock
--- include: views
--- include: ledger
--- include: throttle
--- include: bands
--- include: finish
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
