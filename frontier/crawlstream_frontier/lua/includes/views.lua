-- Units with common rate limits. A *view* is a spider's work as a set of workers sees it: all workers share one,
-- with the name of the spider; or, if limits are kept per egress group, each group has
-- its own, `<spider>@<group>`.
-- Guarantee: the indexes `w`, `r`, `p` and `z` are kept for each view, entries (`b`, `o`, `q`, `y`) for
--   the spider; a domain with entries is in one index of every view. `revise` fills a new view;
--   a view notices in its turn that others have emptied a domain.
-- `views:<S>` HASH view -> time of the last call of its workers; only with limits per group.
-- A domain's throttle state is stored under its name, followed by spider type or group if limits are kept per such.
-- Needs: clock.
local is_by_type, is_by_group = scope == 'type' or scope == 'type group', scope == 'type group'
  or scope == 'group'
local spider_of, view_of, views_of, key_of, keys_of, domain_of

do
local views, suffixes = {}, {}

-- Return the spider of a view.
function spider_of(V)
  return is_by_group and string.match(V, '^[^@]*') or V
end

-- Return the view of a worker; nil if a needed group is missing.
function view_of(S, group)
  if not is_by_group then
    return S
  end
  return group ~= '' and S .. '@' .. group or nil
end

-- Return all views of a spider.
function views_of(S)
  if not views[S] then
    views[S] = is_by_group and redis.call('HKEYS', K.views(S)) or { S }
  end
  return views[S]
end

-- Return the name of the state of a domain in a view.
function key_of(V, domain)
  if scope == '' then
    return domain
  end
  suffixes[V] = suffixes[V] or ' ' .. (is_by_type and V or string.match(V, '@.*$'))
  return domain .. suffixes[V]
end

-- Return the names of the states of several domains.
function keys_of(V, domains)
  if scope == '' then
    return domains
  end
  local keys = {}
  for i = 1, #domains do
    keys[i] = key_of(V, domains[i])
  end
  return keys
end

-- Return the domain of a state.
function domain_of(key)
  return scope == '' and key or string.match(key, '^%S+')
end

end
