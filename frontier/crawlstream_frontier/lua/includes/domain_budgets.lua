-- Budgets of the domains of a run: `domain_max_bytes` and `domain_max_failed_share` of the profiles of its pages.
-- Guarantee: once the ended pages of a domain have spent one, leases of its pages name the budget from this call on, so
--   that workers end them, and links to it are not admitted from the next call on; until the run ends, whatever the
--   pages in flight bring.
-- `used:<c>` HASH domain -> "<bytes> <done> <failed>[ <budget that is spent>]" of pages with such budgets; `recovered`
--   in the ledger has 4 if there is any, and 8 more if one is spent. `used` of a crawl is 4, 12 or nil.
-- Needs: clock, ledger. Cost: a read and a write per crawl and call that ends such pages; once a budget is spent, a
--   read for the links of a call and one for its leases; nothing for other crawls.
-- Return the spent budgets of a run by domain, false for none, at least of these domains.
local function spent_budgets(c, domains)
  local crawl, missing = crawl_of(c), {}
  local spent = crawl.spent or {}
  crawl.spent = spent
  for _, domain in ipairs(domains) do
    if spent[domain] == nil then
      spent[domain], missing[#missing + 1] = false, domain
    end
  end
  local texts = #missing > 0 and redis.call('HMGET', K.used(c), unpack(missing)) or {}
  for i, domain in ipairs(missing) do
    spent[domain] = texts[i] and string.match(texts[i], ' (%a%S*)$') or false
  end
  return spent
end

-- Add ended pages to those of former calls. `rows`: domain -> {bytes, done, failed, lowest domain_max_bytes|0, lowest
-- domain_max_failed_share|0 [, budget that is spent already]}.
local function add_used(c, rows)
  local HAS_USED, HAS_SPENT, LEAST_PAGES = 4, 12, 100
  local domains, fields, crawl, marks = {}, {}, crawl_of(c), HAS_USED
  for domain in pairs(rows) do
    domains[#domains + 1] = domain
  end
  local texts = redis.call('HMGET', K.used(c), unpack(domains))
  for i, domain in ipairs(domains) do
    local more_bytes, more_done, more_failed, most, share, former = unpack(rows[domain], 1, 6)
    local bytes, done, failed, budget = string.match(texts[i] or '0 0 0', '^(%d+) (%d+) (%d+) ?(%S*)$')
    bytes, done, failed = bytes + more_bytes, done + more_done, failed + more_failed
    budget = budget ~= '' and budget or former
    local spent = not budget and (most > 0 and bytes >= most and 'domain_max_bytes' or share > 0
      and done + failed >= LEAST_PAGES and failed >= share * (done + failed) and 'domain_max_failed_share')
    if spent then
      budget = spent
      count(c, 'b:' .. spent, 1)
    end
    local text = string.format('%.0f %.0f %.0f', bytes, done, failed)
    fields[2 * i - 1], fields[2 * i] = domain, budget and text .. ' ' .. budget or text
    marks = budget and HAS_SPENT or marks
  end
  redis.call('HSET', K.used(c), unpack(fields))
  if marks > (crawl.used or 0) then
    redis.call('HINCRBY', K.ledger(c), 'recovered', marks - (crawl.used or 0))
    crawl.used = marks
  end
  crawl.spent = nil
end
