-- Counters of what the waste guard has refused, by family of URLs.
-- Guarantee: a run has at most MOST of them, however many sites and families it meets: those that came first.
-- Record `x:<c>` of crawl number c: `w:<reason> <site> <family>`: links that were left out and pages that were skipped;
--   `families`: the number of these fields.
-- Needs: nothing. Cost: two commands a family; one for a family without a counter.
local count_families
do
  local MOST = 64

  -- Add to the counters of crawl c; `refused`: "<reason> <site> <family>", number …
  function count_families(c, refused)
    local key = K.ledger(c)
    for i = 1, #refused, 2 do
      local field = 'w:' .. refused[i]
      local known = redis.call('HMGET', key, field, 'families')
      if known[1] or tonumber(known[2] or 0) < MOST then
        redis.call('HINCRBY', key, field, refused[i + 1])
        if not known[1] then
          redis.call('HINCRBY', key, 'families', 1)
        end
      end
    end
  end
end
