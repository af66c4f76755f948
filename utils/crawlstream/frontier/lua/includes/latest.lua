-- The ledger of a crawl as whoever asks sees it.
-- Guarantee: of a context that works for no run, it is that of its latest one.
-- Needs: keys. Cost: one command; one more in one of several partitions, whose keys have a dot.
local function ledger_for_readers(c)
  local last = string.find(K.meta, '.', 1, true) and redis.call('HGETALL', K.last(c)) or {}
  if #last > 0 and redis.call('HGET', K.ledger(c), 'run') == '0' then
    return last
  end
  return redis.call('HGETALL', K.ledger(c))
end
