#!lua flags=allow-oom
-- runs: return the latest runs of crawls, as their coordinator has them, for queries.
-- Guarantee: nothing is changed.
-- KEYS: 1 prefix of all keys.
-- ARGV: names of crawls.
-- Returns: packed {{run, state, paused until|-1, expires_s|0, remember_s|-1, generation, max_bytes|0,
--   max_failed_share|0} or {} …}; state: running,
--   paused, stopping, expiring, finished, stopped, expired; {}: the coordinator knows no run; paused until 0: until
--   resumed
-- Cost: two commands per crawl.
--- include: clock
--- include: ledger
--- include: registry

local ENDS = { stopped = 'stopping', expired = 'expiring' }

local function is_paused(crawl)
  return crawl.paused and (crawl.until_s == 0 or crawl.until_s * 1000 > wall)
end

local function state_of(name, crawl)
  if crawl.is_open then
    return crawl.lapsed and ENDS[crawl.lapsed] or is_paused(crawl) and 'paused' or 'running'
  end
  local is_closing = redis.call('HEXISTS', K.closing, name .. ' ' .. int(crawl.g - 1)) == 1
  return is_closing and ENDS[crawl.ending] or crawl.ending
end

local runs = {}
for i = 1, #ARGV - 2 do
  local crawl = registered(ARGV[i])
  local state = not crawl.is_new and state_of(ARGV[i], crawl)
  runs[i] = state and { crawl.run, state, is_paused(crawl) and crawl.until_s or -1,
    crawl.expires and crawl.expires[1] or 0, crawl.remember and crawl.remember[1] or -1, crawl.g,
    crawl.budgets and crawl.budgets[1][2] or 0, crawl.budgets and crawl.budgets[1][3] or 0 } or {}
end
save_clock()
return cmsgpack.pack(runs)
