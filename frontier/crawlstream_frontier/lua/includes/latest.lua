-- The ledger of a crawl as queries return it.
-- Guarantee: for a context without an open run, it is that of its latest one.
-- Needs: keys, kept. Cost: one command.
local function ledger_for_readers(c)
  local ledger = redis.call('HGETALL', K.ledger(c))
  if not string.find(K.meta, '.', 1, true) then
    return ledger  -- A single partition keeps no other counters: keys of several have a dot.
  end
  local run, latest = nil, nil
  for i = 1, #ledger, 2 do
    run = ledger[i] == 'run' and ledger[i + 1] or run
    latest = ledger[i] == 'kept' and ledger[i + 1] or latest
  end
  if run ~= '0' or not latest then
    return ledger
  end
  local found, shown = with_kept(ledger, latest), {}
  found.run, found.state = latest, 'finished'
  for field, value in pairs(found) do
    shown[#shown + 1], shown[#shown + 2] = field, tonumber(value) and string.format('%.0f', value) or value
  end
  return shown
end
