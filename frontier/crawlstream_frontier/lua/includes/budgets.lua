-- Budgets of a run: once it has spent one, it ends as if its time were over.
-- Guarantee: in the only partition of a frontier nothing is leased for a run from the call on that finds a budget
--   spent, and `tend` is woken to end it. With several partitions the coordinator decides, see `spend`.
-- Ledger `x:<c>`: `budgets`, "<max_bytes|0> <max_failed_share|0>"; `budgets_by`, the place in time of the seed that has
--   set them; `recovered`, 2 or 3 if there are any (1 or 3: the run began again), so that runs without budgets cost
--   nothing.
-- `spending` SET of crawl numbers whose runs have budgets: `tend` looks at them.
-- Budgets of a seed are packed {max_seconds|0, max_bytes|0, max_failed_share|0}; one seed sets them all.
-- Needs: clock, ledger. Cost: one command per call and run with budgets; its functions are created when needed.
local made_budgets

local function budgets()
  if made_budgets then
    return made_budgets
  end
  local LEAST_PAGES, OVER_S = 100, 1
  local of = {}
  made_budgets = of

  local function spent_by(run)
    local pages = run.done + run.failed
    if run.max_bytes > 0 and run.bytes >= run.max_bytes then
      return 'max_bytes'
    elseif run.share > 0 and pages >= LEAST_PAGES and run.failed >= run.share * pages then
      return 'max_failed_share'
    end
  end

  -- Load the budgets of a loaded crawl; it is over if its run has spent one: `spent`.
  function of.load(c, crawl)
    local x = redis.call('HMGET', K.ledger(c), 'budgets', 'bytes', 'done', 'failed')
    local max_bytes, share = string.match(x[1] or '0 0', '^(%S+) (%S+)$')
    crawl.budgets = { max_bytes = tonumber(max_bytes), share = tonumber(share), bytes = tonumber(x[2] or 0),
      done = tonumber(x[3] or 0), failed = tonumber(x[4] or 0) }
    crawl.spent = spent_by(crawl.budgets)
    if crawl.spent then
      crawl.expires = OVER_S
    end
  end

  -- Let `tend` end the run of a crawl with budgets if it has spent one with these counts, which are being saved.
  function of.add(c, counts)
    local crawl = crawl_of(c)
    local run = crawl.budgets
    run.bytes, run.done = run.bytes + (counts.bytes or 0), run.done + (counts.done or 0)
    run.failed = run.failed + (counts.failed or 0)
    if crawl.state == 'running' and spent_by(run) then
      redis.call('ZADD', K.expiry, '0', c)
      wake_tend_by(now)
    end
  end

  return of
end
