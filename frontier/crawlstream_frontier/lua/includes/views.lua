-- Who is limited together. A *view* is what workers see of a spider's work: all of them the same one,
-- named like the spider; or, where limits are kept for each egress group, those of a group one of
-- their own, `<spider>@<group>`.
-- Guarantee: the indexes `w`, `r`, `p` and `z` are kept for each view, entries (`b`, `o`, `q`, `y`) for
--   the spider; a domain with entries is in one index of every view. A view that is new is filled by
--   `revise`; what others have emptied it finds when it is its turn.
-- `views:<S>` HASH view -> when a worker of it asked last; only where groups are told apart.
-- A domain's throttle state is kept under its name, followed by what else it is kept for.
-- Needs: clock.
local is_by_type, is_by_group = scope == 'type' or scope == 'type group', scope == 'type group'
  or scope == 'group'
local spider_of, view_of, views_of, key_of, keys_of, domain_of

do
local views, suffixes = {}, {}

-- The spider of a view.
function spider_of(V)
  return is_by_group and string.match(V, '^[^@]*') or V
end

-- The view of a worker; nil if it does not say what it must.
function view_of(S, group)
  if not is_by_group then
    return S
  end
  return group ~= '' and S .. '@' .. group or nil
end

-- All views of a spider.
function views_of(S)
  if not views[S] then
    views[S] = is_by_group and redis.call('HKEYS', K.views(S)) or { S }
  end
  return views[S]
end

-- The name of the state of a domain in a view.
function key_of(V, domain)
  if scope == '' then
    return domain
  end
  suffixes[V] = suffixes[V] or ' ' .. (is_by_type and V or string.match(V, '@.*$'))
  return domain .. suffixes[V]
end

-- The names of the states of several.
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

-- The domain of a state.
function domain_of(key)
  return scope == '' and key or string.match(key, '^%S+')
end

end
