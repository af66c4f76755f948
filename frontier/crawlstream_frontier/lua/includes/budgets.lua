-- Budgets of a run: once it has spent one, it ends as if its time were over.
-- Guarantee: in the only partition of a frontier nothing is leased for a run from the call on that finds a budget
--   spent, and `tend` is woken to end it; it stays over, even if pages in flight lower the share of the failed ones.
--   With several partitions the coordinator decides, see `spend`.
-- Ledger `x:<c>`: `budgets`, "<max_bytes|0> <max_failed_share|0>"; `budgets_by`, the place in time of the seed that has
--   set them; `recovered`, the sum of 1 if the run began again, 2 if there are any, 4 and 8 for those of domains (see
--   `domain_budgets`), 16 if it has a score (see `inlinks`), 32 if it has a host budget (see `host_budgets`), so that
--   runs without budgets cost nothing; `expires` and `budget` once one is spent.
-- `spending` SET of crawl numbers whose runs have budgets: `tend` looks at them.
-- Budgets of a seed are packed {max_seconds|0, max_bytes|0, max_failed_share|0}; one seed sets them all.
-- Needs: clock, ledger. Cost: one command per call and run with budgets, two more when one is spent.

local OVER_S = 1

-- Take the budgets of a loaded crawl and what its run has spent into account. With counts, which are being saved, a
-- spent budget is noted, and the run stays over.
local function look_at_budgets(c, crawl, counts)
  local LEAST_PAGES = 100
  local of = crawl.budgets
  if not of then
    local x = redis.call('HMGET', K.ledger(c), 'budgets', 'bytes', 'done', 'failed')
    local max_bytes, share = string.match(x[1] or '0 0', '^(%S+) (%S+)$')
    of = { tonumber(max_bytes), tonumber(share), tonumber(x[2] or 0), tonumber(x[3] or 0), tonumber(x[4] or 0),
      crawl.expires == OVER_S }
    crawl.budgets = of
  end
  local max_bytes, share, bytes, done, failed, is_noted = unpack(of)
  if counts then
    bytes, done, failed = bytes + (counts.bytes or 0), done + (counts.done or 0), failed + (counts.failed or 0)
    of[3], of[4], of[5] = bytes, done, failed
  end
  local spent = max_bytes > 0 and bytes >= max_bytes and 'max_bytes'
    or share > 0 and done + failed >= LEAST_PAGES and failed >= share * (done + failed) and 'max_failed_share'
  if not spent or is_noted or crawl.state ~= 'running' then
    return
  elseif counts then
    redis.call('HSET', K.ledger(c), 'expires', int(OVER_S), 'budget', spent)
    redis.call('ZADD', K.expiry, '0', c)
    wake_tend_by(now)
    of[6] = true
  end
  crawl.expires = OVER_S
end
