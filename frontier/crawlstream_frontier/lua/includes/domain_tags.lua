-- The tags of one domain in the index of bands: which is next, and which leave.
-- Needs: clock, views, parts, and of `bands` may_lease and its own table, which is like `delays`.

-- Drop one tag of a domain; return the new value of `o`, nil if nothing is left.
function domain_tags.drop(V, domain, o, tag)
  if o ~= domain_tags.SEVERAL then
    return o ~= tag and o or nil
  end
  local S = spider_of(V)
  local q = K.several(S, domain)
  redis.call('ZREM', q, tag)
  local left = redis.call('ZRANGE', q, 0, 1)
  if #left > 1 then
    return domain_tags.SEVERAL
  end
  redis.call('DEL', q)
  if left[1] then
    redis.call('HSET', K.tags(S), domain, left[1])
  end
  return left[1]
end

-- Return the tag that is next in a domain.
function domain_tags.first(V, domain, o)
  return o == domain_tags.SEVERAL and redis.call('ZRANGE', K.several(spider_of(V), domain), 0, 0)[1] or o
end

-- Drop tags of a domain, a bounded number, until its first one has something to lease; return the new
-- value of `o`.
function domain_tags.prune(V, domain, o)
  for _ = 1, domain_tags.MOST_DROPS do
    local tag = o and domain_tags.first(V, domain, o)
    local c = tag and split_tag(tag)
    if not o or (may_lease(c) or waits_for_coordinator(c)) and band_parts().has_entries(spider_of(V), tag, domain) then
      break
    end
    o = domain_tags.drop(V, domain, o, tag)
  end
  return o
end
