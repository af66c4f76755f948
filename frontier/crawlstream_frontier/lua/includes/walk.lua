-- Visits to all domains of a crawl, in bounded steps.
-- Guarantee: a domain that the crawl has from the first step to the last is visited.
-- Each walk has two keys, `revisit` and `revisit:<c>`, or `abandon` and `abandon:<c>`:
--   cursors HASH crawl number -> cursor of its domains: '0' begins, 'end' is behind the last ones;
--   list LIST domains that were found and not visited yet: a scan may find some hundreds at once.
-- Needs: clock, admit. Cost: two commands per domain, and those of the visit.
local DOMAINS_A_SCAN = 50

-- Find more domains, from a cursor on; return the next cursor.
local function find_domains(c, cursor, list)
  local scanned = redis.call('HSCAN', K.domains(c), cursor, 'COUNT', DOMAINS_A_SCAN)
  local names = {}
  for i = 1, #scanned[2], 2 do
    names[#names + 1] = scanned[2][i]
  end
  if #names > 0 then
    redis.call('RPUSH', list, unpack(names))
  end
  return scanned[1] == '0' and 'end' or scanned[1]
end

-- Stop a walk at any point.
local function end_walk(cursors, list, c)
  redis.call('HDEL', cursors, c)
  redis.call('UNLINK', list)
end

-- Visit domains: `visit` gets their name and bands, and returns whether it is done with this one,
-- and whether the step may visit another. Return true if all were visited.
local function walk(cursors, list, c, visit)
  local cursor, may_go_on = redis.call('HGET', cursors, c), true
  while may_go_on do
    local domain, is_done = redis.call('LPOP', list), nil
    if domain then
      local record = parse_domain_record(redis.call('HGET', K.domains(c), domain))
      is_done, may_go_on = visit(domain, record.bands)
      if not is_done then
        redis.call('LPUSH', list, domain)
      end
    elseif cursor == 'end' then
      end_walk(cursors, list, c)
      return true
    else
      cursor = find_domains(c, cursor, list)
    end
  end
  redis.call('HSET', cursors, c, cursor)
  return false
end
