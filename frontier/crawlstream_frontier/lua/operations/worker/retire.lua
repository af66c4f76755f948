#!lua flags=allow-oom
-- retire: return leases of a worker to the front of their queues, in bounded steps.
-- Guarantee: returns the leases that Redis knows, regardless of the worker's memory. With a list of tokens
--   that are alive in the worker, only the others that were granted by calls before `next_call` (the
--   reply to that one may still be on its way), and any older than `max_hold_ms`: each with one reap
--   more, like those of a dead worker; the 20th is a dead letter (hold_timeout). Without a list, all,
--   unmarked, and the last step removes the worker.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 worker, 2 packed list of tokens alive, or '' for no list, 3 next_call, 4 max_hold_ms.
-- Returns: packed {returned tokens, lost tokens, are there more steps}; lost: tokens alive in the worker
--   whose leases have ended here, or end with the last step
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
local worker, next_call, max_hold_ms = ARGV[1], tonumber(ARGV[3]), tonumber(ARGV[4])
local alive = ARGV[2] ~= '' and cmsgpack.unpack(ARGV[2])
local is_alive = {}
for _, token in ipairs(alive or {}) do
  is_alive[token] = true
end

local going, are_more = {}, false
for _, hold in ipairs(all_holds(worker)) do
  local age = now - hold.since
  if not alive or (not is_alive[hold.token] and hold.call < next_call) or age > max_hold_ms then
    are_more = #going == HOLDS_A_STEP
    going[#going + 1] = not are_more and hold or nil
  else
    is_alive[hold.token] = nil
  end
end
join_throttle(going)
local returned = {}
for _, hold in ipairs(going) do
  if alive then
    take_back(hold, 0, 'hold_timeout')
  else
    end_hold(hold)
    put_back(hold, hold.entry, hold.lot.priority, true, 0)
  end
  returned[#returned + 1] = hold.token
end
local lost = {}
for token in pairs(is_alive) do
  lost[#lost + 1] = token
end
flush_holds(worker)
if not alive and not are_more then
  forget_worker(worker)
end
finish()
return cmsgpack.pack({ returned, lost, are_more })
